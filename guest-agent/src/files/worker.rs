//! Runs blocking file work on a thread that has the rights of one user of the guest.
//!
//! `setfsuid` changes what one thread may do to files and nothing else: leaving user id 0 also drops the
//! capabilities that override permissions. The rights come back before the thread serves anyone else.

use std::sync::Arc;

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rekindle_protocol::limits::MAX_WATCHES;
use rekindle_protocol::wire::ErrorCode;
use tokio::sync::OwnedSemaphorePermit;

use crate::agent::{Agent, Busy};
use crate::exec::{Account, AccountNames};
use crate::failure::Failure;
use crate::restore::Sandbox;

/// What a file operation holds while it is under way.
pub struct Ticket {
    /// Whose rights it has.
    pub account: Account,
    /// What owners of files are called.
    pub names: Arc<AccountNames>,
    /// The sandbox it is part of.
    pub sandbox: Arc<Sandbox>,
    _busy: Busy,
    _slot: OwnedSemaphorePermit,
}

/// Passes the gate and waits for a turn, on behalf of this user; an empty name means the sandbox's.
///
/// # Errors
/// When the gate is closed or the user does not exist.
pub async fn admit(agent: &Arc<Agent>, user: &str) -> Result<Ticket, Failure> {
    let (sandbox, busy, account) = enter(agent, user)?;
    let names = agent.names.get();
    let slot = agent.file_slots.clone().acquire_owned().await;
    let slot = slot.map_err(|error| Failure::new(ErrorCode::Internal, error.to_string()))?;
    Ok(Ticket { account, names, sandbox, _busy: busy, _slot: slot })
}

/// Passes the gate for a watch, which lasts: it has a place of its own and waits for none.
///
/// # Errors
/// When the gate is closed, the user does not exist or there are as many watches as may be.
pub fn admit_watch(agent: &Arc<Agent>, user: &str) -> Result<Ticket, Failure> {
    let slot = agent.watch_slots.clone().try_acquire_owned();
    let slot = slot.map_err(|_| {
        Failure::new(ErrorCode::Busy, format!("{MAX_WATCHES} directories are watched already"))
    })?;
    let (sandbox, busy, account) = enter(agent, user)?;
    let names = agent.names.get();
    Ok(Ticket { account, names, sandbox, _busy: busy, _slot: slot })
}

fn enter(agent: &Arc<Agent>, user: &str) -> Result<(Arc<Sandbox>, Busy, Account), Failure> {
    let sandbox = agent.gate.pass()?;
    let busy = agent.begin();
    let account =
        agent.account(user).map_err(|error| Failure::new(ErrorCode::NotFound, error.to_string()))?;
    Ok((sandbox, busy, account))
}

/// Runs `work` with the rights of the ticket's account; it gets that account, and what owners of files are called.
///
/// # Errors
/// What `work` fails with.
pub async fn run<T: Send + 'static>(
    ticket: Ticket,
    work: impl FnOnce(&Account, &AccountNames) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let task = tokio::task::spawn_blocking(move || {
        let _rights = Rights::assume(&ticket.account)?;
        work(&ticket.account, &ticket.names)
    });
    task.await.unwrap_or_else(|error| Err(Failure::new(ErrorCode::Internal, error.to_string())))
}

/// The user's rights over files, on this thread, until dropped.
struct Rights {
    uid: Uid,
    gid: Gid,
}

impl Rights {
    fn assume(account: &Account) -> Result<Self, Failure> {
        // The group first: without root's rights it could no longer be changed.
        let gid = setfsgid(Gid::from_raw(account.gid));
        let uid = setfsuid(Uid::from_raw(account.uid));
        let rights = Self { uid, gid };
        // The calls report no errors; asking for an impossible id tells what is in force.
        let now = setfsuid(Uid::from_raw(u32::MAX));
        if now.as_raw() == account.uid {
            Ok(rights)
        } else {
            Err(Failure::new(ErrorCode::Internal, "the rights of the user could not be assumed"))
        }
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        setfsuid(self.uid);
        setfsgid(self.gid);
    }
}
