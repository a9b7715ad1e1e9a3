//! What a standby process is told. The format is written down in `rootfs/interpreters/README.md`; this is the one place
//! where the agent encodes it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rekindle_protocol::wire::Language;

use crate::exec::Account;
use crate::exec::environment::Environment;
use crate::exec::spec::Spec;

/// What a standby process is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Practise what executions of this kind do first, still as root, and wait on.
    Rehearse,
    /// Get ready for executions of this kind and wait on.
    Prepare,
    /// Become an execution of the kind it is ready for, in a guest where nothing has happened since.
    Go,
    /// Become an execution, and change what is not so already.
    Run,
}

/// Where and as whom an execution runs.
#[derive(Debug)]
pub struct RunContext {
    account: Account,
    cwd: PathBuf,
    environment: Environment,
}

impl RunContext {
    /// That of an execution.
    pub fn of(spec: &Spec) -> Self {
        Self { account: spec.account.clone(), cwd: spec.cwd.clone(), environment: spec.environment.clone() }
    }

    /// Whether it is that of this execution, too.
    pub fn is_of(&self, spec: &Spec) -> bool {
        self.account == spec.account && self.cwd == spec.cwd && self.environment == spec.environment
    }
}

/// Its strings.
fn push_context(strings: &mut Vec<u8>, spec: &Spec) {
    let account = &spec.account;
    let groups: Vec<String> = account.groups.iter().map(u32::to_string).collect();
    push(strings, account.uid.to_string().as_bytes());
    push(strings, account.gid.to_string().as_bytes());
    push(strings, groups.join(",").as_bytes());
    push(strings, spec.cwd.as_os_str().as_bytes());
    for variable in spec.environment.to_c_strings() {
        push(strings, variable.as_bytes());
    }
}

/// The request of an execution of code. Of standard input, output and error the process keeps what is not given.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn encode(order: Order, spec: &Spec, stdio: &[Option<OwnedFd>; 3]) -> io::Result<Vec<u8>> {
    // The length comes first.
    let mut request = vec![0; 4];
    let name: &[u8] = match order {
        Order::Prepare => b"prepare",
        Order::Rehearse => b"rehearse",
        Order::Go => b"go",
        Order::Run => b"run",
    };
    push(&mut request, name);
    for _ in 0..2 {
        push(&mut request, random(spec)?.as_bytes());
    }
    push(&mut request, source(spec));
    if order != Order::Go {
        push(&mut request, if spec.terminal.is_some() { b"1" } else { b"" });
        // A standby process is root's and may open what the agent has open. Not every language can be passed a
        // descriptor; every one can open a file.
        let opened = |fd: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        for fd in stdio {
            push(&mut request, fd.as_ref().map(opened).unwrap_or_default().as_bytes());
        }
        push_context(&mut request, spec);
    }
    let length = request.len() as u32 - 4;
    request[..4].copy_from_slice(&length.to_le_bytes());
    Ok(request)
}

/// The text of an execution of code: the last of its arguments.
pub fn source(spec: &Spec) -> &[u8] {
    spec.argv.last().map_or(b"", |source| CString::as_bytes(source))
}

/// Python asks the kernel itself, where a program wants numbers.
fn random(spec: &Spec) -> io::Result<String> {
    if spec.language != Some(Language::Node) {
        return Ok(String::new());
    }
    getrandom::u32().map(|number| number.to_string()).map_err(|error| io::Error::other(error.to_string()))
}

fn push(strings: &mut Vec<u8>, string: &[u8]) {
    strings.extend_from_slice(string);
    strings.push(0);
}
