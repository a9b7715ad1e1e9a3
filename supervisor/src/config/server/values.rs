//! Values of the configuration that are neither a number, a path nor plain text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which engine is asked for. `engine` reads the name itself: this layer does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// The best one the host can run.
    Auto,
    /// Firecracker under its jailer.
    Firecracker,
    /// QEMU.
    Qemu,
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Firecracker => "firecracker",
            Self::Qemu => "qemu",
        })
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Permissions of a file, written as octal text. A number is not taken: 600 would be something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode(u32);

impl Mode {
    /// For the owner alone.
    pub const OWNER: Self = Self(0o600);
    /// For the owner and the group.
    pub const GROUP: Self = Self(0o660);

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match u32::from_str_radix(&text, 8) {
            Ok(bits) if bits <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Self(bits)),
            _ => Err(format!("{text:?} is not an octal mode such as \"0600\"")),
        }
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        format!("{:04o}", mode.0)
    }
}
