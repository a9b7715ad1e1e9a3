//! `rekindle watch`: prints what happens to sandboxes, or to files of one, until it is ended.

use anyhow::bail;
use rekindle_api::client::Client;
use rekindle_api::v1::{SandboxEvent, WatchSandboxesRequest};

use super::{escape, print, ps, quantity, refusal, resolve, view, watch_files};
use crate::cli::args::WatchOptions;

/// Runs the command.
pub async fn watch(mut client: Client, mut options: WatchOptions) -> anyhow::Result<u8> {
    let sandbox = match &options.sandbox {
        Some(text) => resolve::resolve(&mut client, text).await?,
        None => String::new(),
    };
    if let Some(path) = options.path.take() {
        return watch_files::watch_files(client, sandbox, path, options).await;
    }
    let request = WatchSandboxesRequest {
        sandbox,
        metadata: options.meta.into_iter().collect(),
        include_existing: options.existing,
    };
    let mut events = client.sandboxes.watch(request).await.map_err(refusal::refused)?.into_inner();
    while let Some(event) = events.message().await.map_err(refusal::refused)? {
        if options.json {
            print::line(&serde_json::to_string(&view::Event::from(&event))?)?;
        } else {
            print::line(&line(&event))?;
        }
    }
    bail!("the server ended the watch\nhint: see whether it still runs with `rekindle status`")
}

fn line(event: &SandboxEvent) -> String {
    let sandbox = event.sandbox.clone().unwrap_or_default();
    let mut line = format!(
        "{}  {:<15}  {}  {}",
        quantity::moment(event.at),
        view::event(event.kind),
        sandbox.id,
        sandbox.template
    );
    if let Some(end) = &sandbox.end {
        line.push_str(&format!("  {}: {}", view::end_reason(end.reason), end.message));
    }
    let metadata = ps::metadata(&sandbox.metadata);
    if !metadata.is_empty() {
        line.push_str("  ");
        line.push_str(&metadata);
    }
    escape::text(&line)
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::{Sandbox, SandboxEnd, SandboxEndReason, SandboxEventKind};

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let sandbox = Sandbox {
            id: "ab12".into(),
            template: "minimal".into(),
            end: Some(SandboxEnd {
                reason: SandboxEndReason::AgentLost.into(),
                message: "said \u{1b}[2J\n".into(),
                ended_at: None,
            }),
            metadata: [("job".to_owned(), "7".to_owned())].into(),
            ..Sandbox::default()
        };
        let event = SandboxEvent {
            kind: SandboxEventKind::Ended.into(),
            at: Some(rekindle_api::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            sandbox: Some(sandbox),
        };
        assert_eq!(
            line(&event),
            "2023-11-14 22:13:20  ended            ab12  minimal  agent_lost: said \\u{1b}[2J\\n  job=7"
        );
    }
}
