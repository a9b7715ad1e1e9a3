//! What a parked process is told: a length, then strings that each end in a zero byte.
//!
//! In this order: whether there is a terminal, user, group, groups, working directory, where standard input,
//! output and error are to be opened, the source text, and every variable. None of them can hold a zero byte:
//! they have been checked for it as arguments of a program are.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use crate::exec::spec::Spec;

/// The request of an execution of code.
pub fn encode(spec: &Spec, stdio: [BorrowedFd<'_>; 3]) -> Vec<u8> {
    let account = &spec.account;
    let groups: Vec<String> = account.groups.iter().map(u32::to_string).collect();
    let mut strings = vec![
        u8::from(spec.terminal.is_some()).to_string().into_bytes(),
        account.uid.to_string().into_bytes(),
        account.gid.to_string().into_bytes(),
        groups.join(",").into_bytes(),
        spec.cwd.as_os_str().as_bytes().to_vec(),
    ];
    // A parked process is root's and may open what the agent has open. Not every language can be passed a
    // descriptor; every one can open a file.
    let opened = |fd: &BorrowedFd<'_>| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    strings.extend(stdio.iter().map(opened).map(String::into_bytes));
    strings.extend(spec.argv.last().map(|source| source.as_bytes().to_vec()));
    strings.extend(spec.environment.to_c_strings().into_iter().map(CString::into_bytes));
    let size: usize = strings.iter().map(|string| string.len() + 1).sum();
    let mut request = Vec::with_capacity(4 + size);
    request.extend_from_slice(&(size as u32).to_le_bytes());
    for string in strings {
        request.extend_from_slice(&string);
        request.push(0);
    }
    request
}
