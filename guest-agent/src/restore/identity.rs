//! Host name and machine-id: what programs take for the identity of the machine they run on.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

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

/// Sets the host name that the root file system has from an earlier machine. One that is none is left alone: programs
/// of the sandbox may have written anything there.
///
/// # Errors
/// When the kernel refuses.
pub fn take_up_hostname() -> io::Result<()> {
    let Ok(text) = fs::read_to_string("/etc/hostname") else { return Ok(()) };
    let name = text.trim();
    if name.is_empty() || check(name, "").is_err() {
        return Ok(());
    }
    Ok(nix::unistd::sethostname(name)?)
}

/// The files that hold them.
#[derive(Debug)]
pub struct Identity {
    hostname: Whole,
    hosts: Whole,
    machine_id: Whole,
}

impl Identity {
    /// Finds the files.
    pub fn find() -> Self {
        Self {
            hostname: Whole::find("/etc/hostname"),
            hosts: Whole::find("/etc/hosts"),
            machine_id: Whole::find("/etc/machine-id"),
        }
    }

    /// Sets the host name where programs look for it; empty leaves it alone.
    ///
    /// # Errors
    /// When the kernel or the root file system refuses.
    pub fn set_hostname(&mut self, hostname: &str) -> io::Result<()> {
        if hostname.is_empty() {
            return Ok(());
        }
        nix::unistd::sethostname(hostname)?;
        self.hostname.write(&format!("{hostname}\n"))?;
        self.hosts.write(&format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n"))
    }

    /// Writes the machine-id; empty leaves it alone.
    ///
    /// # Errors
    /// When the root file system refuses.
    pub fn set_machine_id(&mut self, machine_id: &str) -> io::Result<()> {
        if machine_id.is_empty() { Ok(()) } else { self.machine_id.write(&format!("{machine_id}\n")) }
    }
}

/// A file that is written as a whole, open with its length if it is there.
#[derive(Debug)]
struct Whole {
    path: &'static str,
    open: Option<(File, u64)>,
}

impl Whole {
    fn find(path: &'static str) -> Self {
        let open = File::options().write(true).open(path).and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        Self { path, open: open.ok() }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let Some((file, length)) = &mut self.open else { return fs::write(self.path, text) };
        file.write_all_at(text.as_bytes(), 0)?;
        if *length != text.len() as u64 {
            *length = text.len() as u64;
            file.set_len(*length)?;
        }
        Ok(())
    }
}
