//! Ends everything in good order: no new sandboxes, calls under way may finish until the deadline, then every
//! sandbox ends with the reason `shutdown`, and the pool with it.

use std::time::Duration;

use tokio::time::timeout;

use super::registry::Service;
use super::sandbox::EndReason;

impl Service {
    /// Refuses new sandboxes from now on.
    pub fn drain(&self) {
        self.draining().send_replace(true);
    }

    /// Waits until nothing is under way, at most `within`, then ends everything and returns when it is gone.
    pub async fn shut_down(&self, within: Duration) {
        self.drain();
        let mut calls = self.calls().subscribe();
        if timeout(within, calls.wait_for(|calls| *calls == 0)).await.is_err() {
            tracing::warn!("calls were still under way at the end of the drain");
        }
        loop {
            let left = self.everyone();
            if left.is_empty() {
                break;
            }
            for sandbox in &left {
                sandbox.want_end(EndReason::Shutdown, "the supervisor was shut down");
            }
            for sandbox in left {
                sandbox.ended().await;
            }
        }
        self.pool().drain().await;
    }
}
