//! For tests: the log as it is written.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::layer::SubscriberExt as _;

use super::log;
use crate::config::server::LogFormat;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is written of what `tells` tells.
pub(crate) fn written(format: LogFormat, tells: impl FnOnce()) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::registry().with(log(format, move || writer.clone()));
    tracing::subscriber::with_default(subscriber, tells);
    let bytes = lines.0.lock().expect("nobody panicked").clone();
    String::from_utf8(bytes).expect("text")
}
