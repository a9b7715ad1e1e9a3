//! Makes a standby process the process of an execution, where the caller would not notice.
//!
//! An interpreter reads some variables once, when it starts, and a warm one has imported modules before its program
//! could do anything about them. An execution that sets such a variable, or whose source changes what imports find,
//! gets an interpreter that is started for it: being right beats being warm.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_protocol::wire::Language;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::cgroup::ExecutionGroup;
use crate::exec::child::Child;
use crate::exec::environment::Environment;
use crate::exec::spec::{Input, Spec};
use crate::exec::stdio::{self, AgentEnds};
use crate::interpreters::pool::Kind;
use crate::interpreters::request::{Order, encode, source};
use crate::interpreters::source_scan;
use crate::interpreters::standby::{Preparation, Standby};
use crate::reaper::Exit;

/// Variables that must be as every execution has them: they choose the interpreter and how it talks.
const FIXED: [&[u8]; 3] = [b"PATH", b"LANG", b"PYTHONUNBUFFERED"];
/// Beginnings of names that interpreters, or the libraries they have loaded, read when they start.
const READ_AT_START: [&[u8]; 20] = [
    b"PYTHON",
    b"NODE_",
    b"LC_",
    b"LANGUAGE",
    b"LD_",
    b"GLIBC_",
    b"MALLOC_",
    b"UV_",
    b"OPENSSL_",
    b"SSL_",
    b"SSLKEYLOG",
    b"ICU_",
    b"OPENBLAS_",
    b"GOTO_",
    b"OMP_",
    b"MKL_",
    b"NPY_",
    b"NUMPY_",
    b"PANDAS_",
    b"V8_",
];

/// A process that has been claimed.
pub struct Claimed {
    /// The process.
    pub child: Child,
    /// Tells of its end.
    pub exit: oneshot::Receiver<Exit>,
    /// The agent's ends of its streams.
    pub ends: AgentEnds,
    /// Its own ends, as far as it does not have them already. To be kept until its program runs.
    pub own_ends: [Option<OwnedFd>; 3],
}

/// The process, if a warm interpreter fits the execution and one is there. `None` means: start one.
/// `untouched` says that nothing has happened in this guest yet.
///
/// # Errors
/// When there are no descriptors or random bytes left.
pub async fn claim(
    agent: &Agent,
    spec: &Spec,
    group: Option<&ExecutionGroup>,
    untouched: bool,
) -> io::Result<Option<Claimed>> {
    let Some(mut standby) = take(agent, spec).await else { return Ok(None) };
    let as_prepared = standby.prepared.as_ref().is_some_and(|prepared| prepared.context.is_of(spec));
    let (ends, own_ends) = streams(&mut standby, spec)?;
    let order =
        if untouched && as_prepared && own_ends.iter().all(Option::is_none) { Order::Go } else { Order::Run };
    let request = encode(order, spec, &own_ends)?;
    let moved = group.is_none_or(|group| group.take_in(standby.pid).is_ok());
    if !moved || standby.link.tell(&request).await.is_err() {
        // It has ended, or will now.
        let _ = kill(Pid::from_raw(standby.pid), Signal::SIGKILL);
        return Ok(None);
    }
    let (child, exit) = standby.into_child(spec.terminal.is_some());
    Ok(Some(Claimed { child, exit, ends, own_ends }))
}

/// What it was prepared with, and what the execution wants beside it.
fn streams(standby: &mut Standby, spec: &Spec) -> io::Result<(AgentEnds, [Option<OwnedFd>; 3])> {
    let Some(Preparation { mut ends, .. }) = standby.prepared.take().filter(|_| spec.terminal.is_none())
    else {
        let (ends, own_ends) = stdio::open(spec)?;
        return Ok((ends, own_ends.map(Some)));
    };
    let mut own_ends = [None, None, None];
    if spec.input != Input::Nothing {
        let (input, own_end) = stdio::input()?;
        ends.input = Some(input);
        own_ends[0] = Some(own_end);
    }
    Ok((ends, own_ends))
}

/// One that waits, if it may be used.
async fn take(agent: &Agent, spec: &Spec) -> Option<Standby> {
    let kind = agent.interpreters.kind(language_of(agent, spec)?, source(spec))?;
    let waiting = agent.interpreters.take(kind);
    let Kind::Python(number) = kind else { return waiting };
    if waiting.is_some() {
        return waiting;
    }
    // A copy that is being made is there sooner than another one, and that sooner than an interpreter.
    drop(agent.interpreters.copying.lock().await);
    match agent.interpreters.take(kind) {
        Some(standby) => Some(standby),
        None => agent.interpreters.forker(number)?.fork(agent).await.ok(),
    }
}

/// The language, if a warm interpreter of it may be used.
pub fn language_of(agent: &Agent, spec: &Spec) -> Option<Language> {
    let language = spec.language.filter(|language| matches!(language, Language::Python | Language::Node))?;
    // Where processes are limited by user, the limit is set between start and program.
    let limited = spec.pids > 0 && !agent.cgroups.controllers().pids;
    // Node cannot begin the session that a terminal is part of.
    let sessionless = language == Language::Node && spec.terminal.is_some();
    if spec.plain || !spec.usual_user || limited || sessionless {
        return None;
    }
    if language == Language::Python && source_scan::may_change_imports(source(spec), &READ_AT_START) {
        return None;
    }
    let expected = Environment::build(&spec.account, false, []);
    if spec.environment == expected && spec.cwd.to_str().is_some() {
        // As most are: there is nothing to look at.
        return Some(language);
    }
    let fixed = FIXED.iter().all(|name| {
        std::str::from_utf8(name).is_ok_and(|name| spec.environment.get(name) == expected.get(name))
    });
    let read =
        |name: &[u8]| READ_AT_START.iter().any(|start| name.starts_with(start)) && !FIXED.contains(&name);
    if !fixed || spec.environment.iter().any(|(name, _)| read(name)) {
        return None;
    }
    // Node holds text, where other programs hold bytes.
    let text = spec.cwd.to_str().is_some()
        && spec.environment.iter().all(|(name, value)| {
            [name, value].iter().all(|part| part.is_ascii() || std::str::from_utf8(part).is_ok())
        });
    (text || language == Language::Python).then_some(language)
}
