//! `rekindle exec`: runs a program in a sandbox, with the exit codes of `rekindle run`.
//!
//! ```text
//!           --stream, -i or -t            else, or --key
//!   live: output as it comes,       whole: one call, its shortened
//!   input, signals, terminal        output at the end
//! ```

mod end;
mod live;
mod request;
mod whole;

use rekindle_api::client::Client;
use rekindle_api::v1::{ExecuteResponse, Output};

pub use self::end::End;
use super::{print, resolve, view};
use crate::cli::args::ExecOptions;

/// How an execution came to an end here.
enum Ended {
    /// It told how.
    Finished(Box<ExecuteResponse>),
    /// This command was asked to end first, and exits with this code.
    Left(u8),
}

/// Runs the command.
pub async fn exec(mut client: Client, options: ExecOptions) -> anyhow::Result<u8> {
    request::check(&options)?;
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = request::request(&options, sandbox);
    let live = (options.stream || options.interactive || options.tty) && options.key.is_none();
    let ended = if live {
        live::live(&mut client, &options, request).await?
    } else {
        whole::whole(&mut client, &options, request).await?
    };
    let response = match ended {
        Ended::Finished(response) => response,
        Ended::Left(code) => return Ok(code),
    };
    let end = End::of(&response)?;
    let code = end.code();
    if options.json {
        print::json(&view::Execution::new(*response, end))?;
        return Ok(code);
    }
    if !live {
        show(&response)?;
    }
    if let Some(note) = end.note() {
        eprintln!("rekindle: {note}");
    }
    Ok(code)
}

/// Prints what was collected, and what of it was cut.
fn show(response: &ExecuteResponse) -> anyhow::Result<()> {
    use std::io::Write as _;
    let text =
        |output: &Option<Output>| output.as_ref().map(|output| output.text.clone()).unwrap_or_default();
    print::text(&text(&response.stdout))?;
    std::io::stderr().lock().write_all(text(&response.stderr).as_bytes())?;
    for (name, output) in [("stdout", &response.stdout), ("stderr", &response.stderr)] {
        if let Some(note) = output.as_ref().and_then(|output| cut(name, output)) {
            eprintln!("rekindle: {note}");
        }
    }
    Ok(())
}

/// What to say about an output that was shortened.
fn cut(name: &str, output: &Output) -> Option<String> {
    let shown = output.text.chars().count();
    let total = output.total_chars;
    let mut note = format!("{name} was shortened to {shown} of {total} characters");
    if output.spilled_path.is_empty() {
        note.push_str("; --stream or --output-limit shows more");
    } else {
        note.push_str(&format!(
            "; `rekindle get` all of it from {}",
            super::escape::bytes(&output.spilled_path)
        ));
    }
    output.truncated.then_some(note)
}

#[cfg(test)]
mod tests {
    //! What is said about output that was cut.

    use super::*;

    #[test]
    fn a_cut_says_where_the_rest_is() {
        let whole = Output { text: "abc".into(), total_chars: 3, ..Output::default() };
        assert_eq!(cut("stdout", &whole), None);
        let lost = Output { truncated: true, total_chars: 9, ..whole };
        let note = cut("stdout", &lost).expect("it was cut");
        assert_eq!(note, "stdout was shortened to 3 of 9 characters; --stream or --output-limit shows more");
        let kept = Output { spilled_path: bytes::Bytes::from_static(b"/x\x1b/out"), ..lost };
        let note = cut("stdout", &kept).expect("it was cut");
        assert!(note.ends_with("`rekindle get` all of it from /x\\u{1b}/out"), "{note}");
    }
}
