//! What can go wrong on the control channel.

use std::io;

/// A failed command or a broken channel.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// The monitor refused the command.
    #[error("{command} was refused: {description} ({class})")]
    Refused {
        /// The command.
        command: &'static str,
        /// QEMU's class of the error.
        class: String,
        /// QEMU's own words.
        description: String,
    },
    /// The channel is closed, usually because the monitor has ended.
    #[error("the control channel closed during {command}")]
    Closed {
        /// The command.
        command: &'static str,
    },
    /// The channel could not be read or written.
    #[error("the control channel failed during {command}")]
    Channel {
        /// The command.
        command: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The monitor sent something that is not understood.
    #[error("the monitor sent something unexpected during {command}: {what}")]
    Unexpected {
        /// The command.
        command: &'static str,
        /// What was wrong with it.
        what: String,
    },
    /// The migration did not complete.
    #[error("the migration ended as {status:?}{}", reason(.description))]
    Migration {
        /// QEMU's status.
        status: String,
        /// QEMU's own words, when it has any.
        description: Option<String>,
    },
}

fn reason(description: &Option<String>) -> String {
    description.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}
