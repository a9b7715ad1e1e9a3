//! The two tasks that read what a program prints, and what the host is told of it in the end. Used by `execute`.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rekindle_protocol::wire;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::exec::output::Pumped;

/// The tasks that read output.
pub struct Pumps {
    /// Of standard output, or the terminal.
    pub stdout: Option<JoinHandle<Pumped>>,
    /// Of standard error.
    pub stderr: Option<JoinHandle<Pumped>>,
}

impl Pumps {
    /// Waits until both streams have ended.
    pub async fn finish(self) -> (Option<Pumped>, Option<Pumped>) {
        let join = async |task: Option<JoinHandle<Pumped>>| match task {
            Some(task) => task.await.ok(),
            None => None,
        };
        (join(self.stdout).await, join(self.stderr).await)
    }

    /// Nobody wants the output: the tasks end by themselves, and what they kept is removed.
    pub fn abandon(self) {
        for task in [self.stdout, self.stderr].into_iter().flatten() {
            tokio::spawn(async move {
                if let Ok(pumped) = task.await {
                    let spill = pumped.spill().await;
                    let _ = spawn_blocking(move || spill.finish(false)).await;
                }
            });
        }
    }
}

/// What is told of one stream.
pub async fn collected(pumped: Option<Pumped>) -> wire::CollectedOutput {
    let Some(pumped) = pumped else { return wire::CollectedOutput::default() };
    let spill = pumped.spill().await;
    let collected = pumped.collected;
    let truncated = collected.truncated;
    let kept = if spill.blocks(truncated) {
        spawn_blocking(move || spill.finish(truncated)).await.ok().flatten()
    } else {
        None
    };
    let (spilled_path, spilled_bytes) = kept.unwrap_or((PathBuf::new(), 0));
    wire::CollectedOutput {
        text: collected.text,
        truncated,
        total_bytes: collected.total_bytes,
        total_chars: collected.total_chars,
        spilled_path: spilled_path.into_os_string().into_vec().into(),
        spilled_bytes,
    }
}
