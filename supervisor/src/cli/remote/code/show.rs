//! Shows a run as it goes on: what the code prints where it prints it, and the text of what it shows on standard output.

use std::io::{self, Write};

use rekindle_api::v1::CodeResult;

/// What was printed so far.
#[derive(Debug, Default)]
pub struct Shown {
    /// The last line of standard output has not ended.
    open: bool,
}

impl Shown {
    pub fn stdout(&mut self, text: &str) -> io::Result<()> {
        self.out(&mut io::stdout().lock(), text)
    }

    #[expect(clippy::unused_self, reason = "as the others")]
    pub fn stderr(&mut self, text: &str) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(text.as_bytes())?;
        err.flush()
    }

    /// The text of a result, on lines of its own.
    pub fn result(&mut self, result: &CodeResult) -> io::Result<()> {
        match lines(result, self.open) {
            Some(text) => self.stdout(&text),
            None => Ok(()),
        }
    }

    fn out(&mut self, out: &mut impl Write, text: &str) -> io::Result<()> {
        if let Some(last) = text.chars().last() {
            self.open = last != '\n';
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// What is printed of a result. One without text says which forms it has.
fn lines(result: &CodeResult, open: bool) -> Option<String> {
    let before = if open { "\n" } else { "" };
    let text = match &result.text {
        Some(text) => text.clone(),
        None => {
            let forms = super::save::forms(result).into_iter().map(|(ending, _)| ending);
            let named = forms.chain(result.html.as_ref().map(|_| "html")).collect::<Vec<_>>().join(", ");
            if named.is_empty() {
                return None;
            }
            format!("<{named}>")
        }
    };
    let after = if text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{before}{text}{after}"))
}

#[cfg(test)]
mod tests {
    //! Where lines end.

    use super::*;

    #[test]
    fn a_result_has_lines_of_its_own() {
        let text = |text: &str| CodeResult { text: Some(text.into()), ..CodeResult::default() };
        assert_eq!(lines(&text("42"), false).as_deref(), Some("42\n"));
        assert_eq!(lines(&text("a\n"), true).as_deref(), Some("\na\n"));
        let image = CodeResult { png: Some(vec![1].into()), svg: Some("<svg/>".into()), ..text("") };
        let image = CodeResult { text: None, ..image };
        assert_eq!(lines(&image, false).as_deref(), Some("<png, svg>\n"));
        assert_eq!(lines(&CodeResult::default(), false), None);
        let (mut shown, mut out) = (Shown::default(), Vec::new());
        shown.out(&mut out, "a").expect("written");
        assert!(shown.open);
        shown.out(&mut out, "\n").expect("written");
        assert!(!shown.open && out == b"a\n");
    }
}
