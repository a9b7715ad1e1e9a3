//! Starts the interpreters that are missing, one thing at a time, and has each do ahead what the usual execution needs.
//!
//! In a clone every step of a program's start costs more than ever after, because nothing of it has run there yet. What
//! is done before the snapshot costs no clone anything: pipes, groups, environment, streams. An execution that differs
//! still gets what it asks for: the process changes what is not so already.

use std::io;
use std::sync::Arc;

use rekindle_protocol::limits::{MAX_WARM_MODULES, MAX_WARM_NODES};
use rekindle_protocol::wire::execute_request::Program;
use rekindle_protocol::wire::{self, Code, ErrorCode, ExecuteRequest, Language};

use crate::agent::Agent;
use crate::exec::spec::Spec;
use crate::exec::stdio;
use crate::failure::Failure;
use crate::interpreters::claim::language_of;
use crate::interpreters::forker::Forker;
use crate::interpreters::pool::{Kind, Missing};
use crate::interpreters::request::{Order, RunContext, encode};
use crate::interpreters::standby::{Preparation, Standby, start_node};
use crate::restore::Sandbox;

/// Starts the interpreters a template's recipe asks for, before the snapshot. Returns when all stand by.
///
/// # Errors
/// When the request makes no sense, or one of them does not start.
pub async fn start(agent: &Arc<Agent>, request: wire::WarmRequest) -> Result<(), Failure> {
    let _busy = agent.begin();
    let pythons = request.python.map_or_else(Vec::new, pythons);
    check(pythons.last().map_or(&[], Vec::as_slice), request.node)?;
    agent.interpreters.want(pythons, request.node as usize);
    fill(agent).await.map_err(|error| {
        Failure::new(ErrorCode::SpawnFailed, format!("an interpreter cannot be kept warm: {error}"))
    })
}

/// What each Python imports; the last one everything.
fn pythons(wire::WarmPython { modules, packages }: wire::WarmPython) -> Vec<Vec<String>> {
    let all = [modules.clone(), packages].concat();
    if all.len() == modules.len() { vec![all] } else { vec![modules, all] }
}

fn check(modules: &[String], nodes: u32) -> Result<(), Failure> {
    let word = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if modules.len() > MAX_WARM_MODULES || nodes > MAX_WARM_NODES {
        return Err(Failure::invalid("more is to be kept warm than is allowed"));
    }
    match modules.iter().find(|name| !name.split('.').all(word)) {
        Some(name) => Err(Failure::invalid(format!("{name:?} is not the name of a module"))),
        None => Ok(()),
    }
}

/// Starts what is missing in the background, in the group that is last in line for the processor.
pub fn refill(agent: &Arc<Agent>) {
    if agent.interpreters.missing().is_none() {
        return;
    }
    // Held from here on, so that whoever waits for the interpreters cannot come before them.
    let held = agent.interpreters.filling.clone().try_lock_owned();
    let agent = agent.clone();
    tokio::spawn(async move {
        let _one_at_a_time = match held {
            Ok(held) => held,
            Err(_) => agent.interpreters.filling.clone().lock_owned().await,
        };
        if let Err(error) = fill_alone(&agent).await {
            eprintln!("rekindle-agent: an interpreter cannot be kept warm: {error}");
        }
    });
}

/// Starts what is missing until nothing is.
///
/// # Errors
/// When something does not start; what was missing stays so.
pub async fn fill(agent: &Arc<Agent>) -> io::Result<()> {
    let _one_at_a_time = agent.interpreters.filling.lock().await;
    fill_alone(agent).await
}

/// The same, for whoever holds the lock.
async fn fill_alone(agent: &Arc<Agent>) -> io::Result<()> {
    while let Some(missing) = agent.interpreters.missing() {
        match missing {
            Missing::Forker(number, modules) => {
                agent.interpreters.add_forker(number, Forker::start(agent, &modules).await?);
            }
            Missing::Copy(number, forker) => {
                let _copying = agent.interpreters.copying.lock().await;
                match forker.fork(agent).await {
                    Ok(copy) => {
                        let copy = agent.tuning.standby_ready(agent, Language::Python, copy).await?;
                        agent.interpreters.add(Kind::Python(number), copy);
                    }
                    Err(error) => {
                        // The next round starts another one.
                        agent.interpreters.lose_forker(number);
                        eprintln!("rekindle-agent: the Python forker is gone: {error}");
                    }
                }
            }
            Missing::Node => {
                let standby = start_node(agent).await?;
                let standby = agent.tuning.standby_ready(agent, Language::Node, standby).await?;
                agent.interpreters.add(Kind::Node, standby);
            }
        }
    }
    Ok(())
}

/// Prepares it for an execution of `language` in which nothing but the source is asked for.
///
/// # Errors
/// When it does not answer.
pub async fn prepare(agent: &Arc<Agent>, language: Language, mut standby: Standby) -> io::Result<Standby> {
    let spec = usual(agent, language).map_err(|failure| io::Error::other(failure.to_string()))?;
    let (ends, own_ends) = stdio::open(&spec)?;
    // Its own it opens itself.
    let mut own_ends = own_ends.map(Some);
    if language == Language::Node {
        // It can have no more descriptors meanwhile: what it opened would be there when its program starts.
        let before = limit_files(standby.pid, None)?;
        limit_files(standby.pid, Some(&libc::rlimit { rlim_cur: own_ends.len() as u64, ..before }))?;
        tell(&standby, &encode(Order::Rehearse, &spec, &own_ends)?).await?;
        limit_files(standby.pid, Some(&before))?;
        own_ends = [None, None, None];
    }
    tell(&standby, &encode(Order::Prepare, &spec, &own_ends)?).await?;
    standby.prepared = Some(Preparation { ends, context: RunContext::of(&spec) });
    Ok(standby)
}

/// Tells it something and waits until it is done.
async fn tell(standby: &Standby, request: &[u8]) -> io::Result<()> {
    standby.link.tell(request).await?;
    standby.link.hear(|heard| heard.contains(&b'.')).await.map(drop)
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
        Spec::parse(agent, sandbox, request)
    };
    // While a template is built its variables are those of the build, with which nothing warm is used.
    match agent.gate.pass().ok().map(|sandbox| spec(&sandbox)).transpose()? {
        Some(spec) if language_of(agent, &spec).is_some() => Ok(spec),
        _ => spec(&Sandbox::default()),
    }
}
