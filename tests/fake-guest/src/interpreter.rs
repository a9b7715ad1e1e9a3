//! The program of a code interpreter's context, which speaks its protocol and runs nothing: code are words as
//! everywhere. A run that an interrupt ends says so; one that fails takes its program with it.

use bytes::Bytes;
use rekindle_protocol::wire::OutputStream;
use rekindle_protocol::wire::execute_result::Outcome;
use tokio::sync::mpsc;

use crate::execute::Execution;
use crate::words;

/// What the programs that the supervisor brings for this say at their beginning.
const MARK: &str = "of a code interpreter's context";

/// Whether a text is such a program.
pub(crate) fn is_one(text: &str) -> bool {
    text.contains(MARK)
}

impl Execution<'_> {
    /// Runs what it is asked for until its input ends.
    pub(crate) async fn interpret(&mut self, mut interrupts: mpsc::UnboundedReceiver<()>) -> Option<Outcome> {
        let (mut buffer, mut count) = (Vec::new(), 0);
        while let Some(line) = self.line(&mut buffer).await {
            let request: serde_json::Value = serde_json::from_slice(&line).unwrap_or_default();
            let (id, code) = (&request["id"], request["code"].as_str().unwrap_or_default());
            count += 1;
            while interrupts.try_recv().is_ok() {}
            self.both(&format!(r#"{{"type":"begin","id":{id}}}"#)).await?;
            self.message(&format!(r#"{{"type":"number_of_executions","execution_count":{count}}}"#)).await?;
            let interrupted = tokio::select! {
                outcome = Box::pin(self.run(words::parse(code))) => match outcome? {
                    Outcome::Exited(0) => false,
                    other => return Some(other),
                },
                _ = interrupts.recv() => true,
            };
            if interrupted {
                self.message(r#"{"type":"error","name":"KeyboardInterrupt","value":"","traceback":""}"#)
                    .await?;
            }
            self.both(&format!(r#"{{"type":"end","id":{id}}}"#)).await?;
        }
        Some(Outcome::Exited(0))
    }

    async fn line(&mut self, buffer: &mut Vec<u8>) -> Option<Bytes> {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                return Some(buffer.drain(..=end).collect());
            }
            buffer.extend_from_slice(&self.next_input().await?);
        }
    }

    async fn both(&mut self, json: &str) -> Option<()> {
        self.say(OutputStream::Stderr, format!("\x1e.{json}\n").as_bytes()).await?;
        self.message(json).await
    }

    /// A message, in one piece.
    pub(crate) async fn message(&mut self, json: &str) -> Option<()> {
        self.say(OutputStream::Stdout, format!("\x1e.{json}\n").as_bytes()).await
    }
}
