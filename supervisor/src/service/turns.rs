//! How many turns a sandbox has, and where its result is to be: a budget for a program that decides what to run next, such
//! as an agent. A turn is an execution that a caller starts, in whatever way; files cost nothing.

use std::time::Duration;

use super::caller::Caller;
use super::error::ServiceError;
use super::registry::{Found, Service};
use super::sandbox::{Sandbox, SandboxState, SandboxView};
use crate::agent::{AgentError, GuestPath, Refusal};
use crate::host::untrusted::printable;

/// The most turns.
const MAX_TURNS: u32 = 1_000_000;
/// Longest path of a result: every warning repeats it.
const MAX_PATH: u64 = 1024;
/// Turns left at which a caller is told to write its result.
const WARNED_AT: [u32; 2] = [3, 1];
/// How long the guest may take to say whether there is a result.
const LOOK: Duration = Duration::from_secs(2);

/// The turns of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    most: u32,
    taken: u32,
}

/// How many turns a sandbox has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnsView {
    /// In all.
    pub most: u32,
    /// Not taken yet.
    pub left: u32,
}

/// Where the result of a sandbox is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultView {
    /// The path, as its caller has it.
    pub path: String,
    /// Whether it is there, where that was asked and the guest could tell.
    pub exists: Option<bool>,
}

/// What an execution says of the turns of its sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnsLeft {
    /// How many were left when it had taken its own.
    pub left: u32,
    /// That the result is to be written, when few are left.
    pub warning: Option<String>,
}

impl Turns {
    /// A budget; 0 is none.
    pub(super) fn new(most: u32) -> Result<Option<Self>, ServiceError> {
        ServiceError::bound("max_turns", most.into(), MAX_TURNS.into())?;
        Ok((most > 0).then_some(Self { most, taken: 0 }))
    }

    /// Takes one, and tells how many are left.
    pub(super) fn take(&mut self) -> Result<u32, ServiceError> {
        if self.taken >= self.most {
            return Err(ServiceError::TurnsSpent { most: self.most });
        }
        self.taken += 1;
        Ok(self.most - self.taken)
    }

    /// Gives one back that came to nothing.
    pub(super) fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    pub(super) fn view(self) -> TurnsView {
        TurnsView { most: self.most, left: self.most - self.taken }
    }
}

impl TurnsLeft {
    /// What is said when so many are left of a sandbox whose result is to be at `path`.
    pub(super) fn new(left: u32, path: Option<&GuestPath>) -> Self {
        let warning = WARNED_AT.contains(&left).then(|| {
            let turns =
                if left == 1 { "1 turn is left".to_owned() } else { format!("{left} turns are left") };
            let to = path.map(|path| format!(" to {}", shown(path))).unwrap_or_default();
            format!("{turns}: write the result{to} now")
        });
        Self { left, warning }
    }

    /// The memory that it holds.
    pub(super) fn weight(&self) -> usize {
        self.warning.as_ref().map_or(0, String::capacity)
    }
}

/// Checks where a result is to be; empty is nowhere.
pub(super) fn result_path(path: &str) -> Result<Option<GuestPath>, ServiceError> {
    if path.is_empty() {
        return Ok(None);
    }
    ServiceError::bound("the length of result_path", path.len() as u64, MAX_PATH)?;
    let path = GuestPath::new(path.to_owned()).map_err(|error| ServiceError::invalid(error.to_string()))?;
    Ok(Some(path))
}

/// A path as it is told.
pub(super) fn shown(path: &GuestPath) -> String {
    // Every byte of it may have to be spelled out.
    printable(&String::from_utf8_lossy(path.as_bytes()), 10 * MAX_PATH as usize)
}

impl Service {
    /// One sandbox, with whether its result is there: the guest is asked, if it runs and is the caller's own.
    ///
    /// # Errors
    /// When the caller has none of this name.
    pub async fn get(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        let found = self.find(caller, sandbox, true)?;
        let mut view = found.view().await;
        // Who runs the host looks at other tenants' sandboxes, and never into them.
        if let Found::Alive(sandbox) = &found
            && caller.tenant == view.tenant
            && let Some(result) = &mut view.result
        {
            result.exists = sandbox.has_result().await;
        }
        Ok(view)
    }
}

impl Sandbox {
    /// Whether the result is there. It is no call in the sandbox: it keeps it from nothing, and one that is paused is not
    /// asked, also when it is paused in the middle.
    async fn has_result(&self) -> Option<bool> {
        let path = self.facts.result_path.as_ref()?;
        let mut frozen = self.frozen();
        if self.lock().state != SandboxState::Running || frozen.borrow_and_update().is_some() {
            return None;
        }
        let agent = self.agent();
        let told = tokio::select! {
            told = agent.stat(path, true, LOOK) => told,
            _ = frozen.changed() => return None,
            _ = self.ended() => return None,
            () = tokio::time::sleep(LOOK) => return None,
        };
        match told {
            Ok(_) => Some(true),
            Err(AgentError::Refused { kind: Refusal::NotFound | Refusal::NotADirectory, .. }) => Some(false),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Counting, and what is said.

    use super::*;

    #[test]
    fn turns_are_taken_given_back_and_spent() {
        assert_eq!(Turns::new(0).expect("none"), None);
        assert!(Turns::new(MAX_TURNS + 1).is_err());
        let mut turns = Turns::new(2).expect("a budget").expect("some");
        assert_eq!(turns.take().expect("one"), 1);
        turns.give_back();
        assert_eq!((turns.take().expect("one"), turns.take().expect("two")), (1, 0));
        assert!(matches!(turns.take(), Err(ServiceError::TurnsSpent { most: 2 })));
        assert_eq!(turns.view(), TurnsView { most: 2, left: 0 });
    }

    #[test]
    fn a_warning_comes_at_three_and_at_one_and_names_the_path() {
        let path = result_path("out/re\nport.html").expect("a path");
        for left in 0..10 {
            let warning = TurnsLeft::new(left, path.as_ref()).warning;
            assert_eq!(warning.is_some(), left == 3 || left == 1, "{left}");
        }
        let three = TurnsLeft::new(3, path.as_ref()).warning;
        assert_eq!(three.as_deref(), Some("3 turns are left: write the result to out/re\\nport.html now"));
        assert_eq!(TurnsLeft::new(1, None).warning.as_deref(), Some("1 turn is left: write the result now"));
        assert!(result_path(&"x".repeat(2000)).is_err() && result_path("a\0b").is_err());
    }
}
