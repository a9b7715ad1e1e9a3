//! Has a parked process do ahead what the usual execution needs: pipes, groups, environment, streams.
//!
//! In a clone every step of a program's start costs more than ever after, because nothing of it has run there
//! yet. What is done before the snapshot costs no clone anything. An execution that differs still gets what it
//! asks for: the process changes what is not so already.

use std::io;
use std::sync::Arc;

use rekindle_protocol::wire::execute_request::Program;
use rekindle_protocol::wire::{Code, ExecuteRequest, Language};

use crate::agent::Agent;
use crate::exec::spec::Spec;
use crate::exec::stdio;
use crate::failure::Failure;
use crate::restore::Sandbox;
use crate::warm::fits::fits;
use crate::warm::parked::{Parked, Prepared};
use crate::warm::request::{Footing, Order, encode};

/// Prepares it for an execution of `language` in which nothing but the source is asked for.
///
/// # Errors
/// When it does not answer.
pub async fn prepare(agent: &Arc<Agent>, language: Language, mut parked: Parked) -> io::Result<Parked> {
    let spec = usual(agent, language).map_err(|failure| io::Error::other(failure.to_string()))?;
    let (ends, own_ends) = stdio::open(&spec)?;
    // Its own it opens itself.
    let mut own_ends = own_ends.map(Some);
    if language == Language::Node {
        // It can have no more descriptors meanwhile: what it opened would be there when its program starts.
        let before = limit_files(parked.pid, None)?;
        limit_files(parked.pid, Some(&libc::rlimit { rlim_cur: own_ends.len() as u64, ..before }))?;
        tell(&parked, &encode(Order::Rehearse, &spec, &own_ends)?).await?;
        limit_files(parked.pid, Some(&before))?;
        own_ends = [None, None, None];
    }
    tell(&parked, &encode(Order::Prepare, &spec, &own_ends)?).await?;
    parked.prepared = Some(Prepared { ends, footing: Footing::of(&spec) });
    Ok(parked)
}

/// Tells it something and waits until it is done.
async fn tell(parked: &Parked, request: &[u8]) -> io::Result<()> {
    parked.line.tell(request).await?;
    parked.line.hear(|heard| heard.contains(&b'.')).await.map(drop)
}

/// How many descriptors a process may have, and from now on, if that is said.
fn limit_files(pid: i32, new: Option<&libc::rlimit>) -> io::Result<libc::rlimit> {
    // SAFETY: all-zero bytes are a valid `rlimit`.
    let mut old: libc::rlimit = unsafe { std::mem::zeroed() };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are to live values of the right type, or null.
    // JUSTIFICATION: no crate in use wraps this call.
    match unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An execution in which nothing but the language is asked for.
fn usual(agent: &Agent, language: Language) -> Result<Spec, Failure> {
    let spec = |sandbox: &Sandbox| {
        let code = Code { language: language.into(), source: String::new() };
        let request = ExecuteRequest { program: Some(Program::Code(code)), ..Default::default() };
        Spec::parse(agent, sandbox, request, false)
    };
    // While a template is built its variables are those of the build, with which nothing warm is used.
    match agent.gate.pass().ok().map(|sandbox| spec(&sandbox)).transpose()? {
        Some(spec) if fits(agent, &spec).is_some() => Ok(spec),
        _ => spec(&Sandbox::default()),
    }
}
