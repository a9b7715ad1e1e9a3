//! Host name and machine-id: what programs take for the identity of the machine they run on.

use std::fs;
use std::io;

use crate::failure::Failure;

/// Refuses names that are none.
///
/// # Errors
/// Names the one that is wrong.
pub fn check(hostname: &str, machine_id: &str) -> Result<(), Failure> {
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if hostname.len() > 63 || !hostname.chars().all(label) || hostname.starts_with('-') {
        return Err(Failure::invalid("a host name is at most 63 characters of a-z, 0-9 and -"));
    }
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if !machine_id.is_empty() && (machine_id.len() != 32 || !machine_id.chars().all(hex)) {
        return Err(Failure::invalid("a machine-id is 32 lower-case hexadecimal digits"));
    }
    Ok(())
}

/// Sets the host name where programs look for it; empty leaves it alone.
///
/// # Errors
/// When the kernel or the root file system refuses.
pub fn set_hostname(hostname: &str) -> io::Result<()> {
    if hostname.is_empty() {
        return Ok(());
    }
    nix::unistd::sethostname(hostname)?;
    fs::write("/etc/hostname", format!("{hostname}\n"))?;
    fs::write("/etc/hosts", format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n"))
}

/// Writes the machine-id; empty leaves it alone.
///
/// # Errors
/// When the root file system refuses.
pub fn set_machine_id(machine_id: &str) -> io::Result<()> {
    if machine_id.is_empty() { Ok(()) } else { fs::write("/etc/machine-id", format!("{machine_id}\n")) }
}
