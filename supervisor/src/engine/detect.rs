//! Chooses the engine and says why in one line.
//!
//! The choice is a pure function of what was found on the host, so it can be tested without one. Called
//! by the command line and the service at start, and by `doctor`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::firecracker::{self, Confinement, FirecrackerEngine, FoundFirecracker};
use super::qemu::{self, FoundQemu, QemuEngine};
use super::{Engine, EngineKind};
use crate::host::kvm::KvmStatus;
use crate::host::open_guard;

/// When `1`, leaving the jailer out is refused. Production hosts set it.
const REQUIRE_JAIL_ENV: &str = "REKINDLE_REQUIRE_JAIL";

/// What QEMU lacks where root has not all rights, as in a container.
const NO_GUARD: &str = "root may not see what its monitors, which run as users of their own, open: the capability \
    SYS_PTRACE is missing\nhint: give it to the container: `docker run --cap-add SYS_PTRACE`, or `cap_add: [SYS_PTRACE]` \
    in a Compose file";

/// Which engine is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The best one this host can run.
    #[default]
    Auto,
    /// This one or none.
    Forced(EngineKind),
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "firecracker" => Ok(Self::Forced(EngineKind::Firecracker)),
            "qemu" => Ok(Self::Forced(EngineKind::Qemu)),
            other => Err(format!("unknown engine {other:?}\nhint: use auto, firecracker or qemu")),
        }
    }
}

/// What was found on the host, each missing thing with its reason.
#[derive(Debug)]
pub struct HostFacts {
    /// Hardware virtualisation.
    pub kvm: KvmStatus,
    /// Firecracker and its jailer; `Err` says what is missing, with a hint.
    pub firecracker: Result<FoundFirecracker, String>,
    /// QEMU; `Err` says why there is none, with a hint.
    pub qemu: Result<FoundQemu, String>,
    /// Whether what QEMU opens can be watched, without which none is started.
    pub can_guard: bool,
}

/// Programs somebody configured; the others are looked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Programs<'a> {
    /// QEMU.
    pub qemu: Option<&'a Path>,
    /// Firecracker; its jailer is beside it.
    pub firecracker: Option<&'a Path>,
}

impl HostFacts {
    /// Looks at this host.
    #[must_use]
    pub fn probe(programs: Programs<'_>) -> Self {
        Self {
            kvm: KvmStatus::probe(),
            firecracker: firecracker::find(programs.firecracker).map_err(|error| error.to_string()),
            qemu: qemu::find(programs.qemu).map_err(|error| error.to_string()),
            can_guard: open_guard::may_guard_others(),
        }
    }
}

/// A choice and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The engine.
    pub engine: EngineKind,
    /// One line a person understands.
    pub reason: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine {}: {}", self.engine, self.reason)
    }
}

/// Why no engine can be used.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The engine that was asked for cannot run here.
    #[error("engine {engine} cannot run here: {reason}")]
    Forced {
        /// The engine.
        engine: EngineKind,
        /// Why, with a hint.
        reason: String,
    },
    /// This host does without the jailer under no circumstances.
    #[error(
        "running without the jailer is refused: {REQUIRE_JAIL_ENV} is 1\nhint: leave --no-jail out; it is for development"
    )]
    JailRequired,
    /// None can.
    #[error("no engine can run here: firecracker: {firecracker}; qemu: {qemu}")]
    None {
        /// What Firecracker lacks.
        firecracker: String,
        /// What QEMU lacks, with a hint.
        qemu: String,
    },
}

/// Chooses.
///
/// # Errors
/// When the engine asked for, or any at all, cannot run here.
pub fn decide(choice: EngineChoice, facts: &HostFacts) -> Result<Decision, DetectError> {
    let firecracker = firecracker(facts);
    match choice {
        EngineChoice::Auto => match (firecracker, qemu_reason(facts)) {
            (Ok(reason), _) => Ok(Decision { engine: EngineKind::Firecracker, reason }),
            (Err(lack), qemu) => {
                // Without its hint: QEMU takes less to run.
                let firecracker = lack.lines().next().unwrap_or_default().to_owned();
                let reason =
                    qemu.map_err(|qemu| DetectError::None { firecracker: firecracker.clone(), qemu })?;
                let reason = format!("{reason}, because firecracker cannot be used: {firecracker}");
                Ok(Decision { engine: EngineKind::Qemu, reason })
            }
        },
        EngineChoice::Forced(engine) => {
            let verdict = match engine {
                EngineKind::Firecracker => firecracker,
                EngineKind::Qemu => qemu_reason(facts),
                EngineKind::Fake => Err("it is for tests only".to_owned()),
            };
            match verdict {
                Ok(reason) => Ok(Decision { engine, reason: format!("{reason}, as asked for") }),
                Err(reason) => Err(DetectError::Forced { engine, reason }),
            }
        }
    }
}

/// Chooses and sets the engine up.
///
/// # Errors
/// As [`decide`].
pub fn detect(choice: EngineChoice, qemu: Option<&Path>) -> Result<(Arc<dyn Engine>, Decision), DetectError> {
    detect_confined(choice, Programs { qemu, firecracker: None }, Confinement::Jailed)
}

/// Chooses and sets the engine up, with or without Firecracker's jailer.
///
/// # Errors
/// As [`decide`], and when the jailer is demanded and to be left out.
pub fn detect_confined(
    choice: EngineChoice,
    programs: Programs<'_>,
    confinement: Confinement,
) -> Result<(Arc<dyn Engine>, Decision), DetectError> {
    let demanded = std::env::var_os(REQUIRE_JAIL_ENV).is_some_and(|value| value == "1");
    if confinement == Confinement::Bare && demanded {
        return Err(DetectError::JailRequired);
    }
    let facts = HostFacts::probe(programs);
    let decision = decide(choice, &facts)?;
    let engine: Arc<dyn Engine> = match (decision.engine, facts.firecracker, facts.qemu) {
        (EngineKind::Firecracker, Ok(found), _) => Arc::new(FirecrackerEngine::confined(found, confinement)),
        (EngineKind::Qemu, _, Ok(found)) => Arc::new(QemuEngine::new(found, &facts.kvm)),
        (engine, ..) => {
            return Err(DetectError::Forced { engine, reason: "it was not found".to_owned() });
        }
    };
    Ok((engine, decision))
}

fn firecracker(facts: &HostFacts) -> Result<String, String> {
    if !facts.kvm.is_usable() {
        let hint = facts.kvm.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        return Err(format!("{}{hint}", facts.kvm));
    }
    let found = facts.firecracker.as_ref().map_err(Clone::clone)?;
    Ok(format!("KVM is usable and Firecracker {} is there", found.version))
}

fn qemu_reason(facts: &HostFacts) -> Result<String, String> {
    let found = facts.qemu.as_ref().map_err(Clone::clone)?;
    if !facts.can_guard {
        return Err(NO_GUARD.to_owned());
    }
    let how = if facts.kvm.is_usable() { "on KVM" } else { "in software emulation" };
    Ok(format!("QEMU {} {how}", found.version))
}

#[cfg(test)]
mod tests;
