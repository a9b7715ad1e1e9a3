//! Names of sandboxes and executions: random, so that nobody can guess another tenant's.

use std::fmt;
use std::str::FromStr;

/// What a sandbox's name begins with.
const SANDBOX: &str = "sb-";
/// Hexadecimal digits after it: 96 bits.
const DIGITS: usize = 24;

/// Names one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId(String);

/// Text that names no sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox id is `{SANDBOX}` and {DIGITS} hexadecimal digits")]
pub struct InvalidId;

impl SandboxId {
    /// A new name.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; DIGITS / 2];
        getrandom::fill(&mut bytes)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(format!("{SANDBOX}{digits}")))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match text.strip_prefix(SANDBOX) {
            Some(digits) if digits.len() == DIGITS && digits.chars().all(hex) => Ok(Self(text.to_owned())),
            _ => Err(InvalidId),
        }
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an execution's name begins with.
const EXECUTION: &str = "ex-";

/// Text that names no execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an execution's name is `{EXECUTION}` and a number")]
pub struct InvalidExecutionId;

/// Names one execution of a sandbox: counted, since only its owner ever sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(pub u64);

impl FromStr for ExecutionId {
    type Err = InvalidExecutionId;

    fn from_str(text: &str) -> Result<Self, InvalidExecutionId> {
        let number = text.strip_prefix(EXECUTION).filter(|digits| digits.chars().all(|c| c.is_ascii_digit()));
        number.and_then(|number| number.parse().ok()).map(Self).ok_or(InvalidExecutionId)
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EXECUTION}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    //! Names and what is none.

    use super::*;

    #[test]
    fn a_name_survives_its_text_and_nothing_else_is_a_name() {
        let id = SandboxId::random().expect("random bytes");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in
            ["", "sb-", "sb-0", "../../etc", "sb-00000000000000000000000G", "sb-0000000000000000000000000"]
        {
            assert_eq!(wrong.parse::<SandboxId>(), Err(InvalidId), "{wrong}");
        }
        assert_eq!(ExecutionId(7).to_string().parse(), Ok(ExecutionId(7)));
        for wrong in ["", "ex-", "7", "ex-+7", "ex--7", "ex-7 ", "ex-99999999999999999999"] {
            assert_eq!(wrong.parse::<ExecutionId>(), Err(InvalidExecutionId), "{wrong}");
        }
    }
}
