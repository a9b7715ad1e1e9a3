//! What is in the memory of a process, with that of the guest whose monitor it is.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Whether these bytes are anywhere in what a process has mapped for itself to write.
///
/// # Panics
/// When this may not be read.
#[must_use]
pub fn holds(pid: u32, needle: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the maps of a process");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("the memory of a process");
    // One program for all of it, which is quick about it; memory is no text, so what it takes for lines ends with zeros.
    let mut grep = Command::new("grep")
        .args(["--text", "--null-data", "--fixed-strings", "--count", "-e", needle])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("grep");
    let mut input = grep.stdin.take().expect("an input");
    let mut piece = vec![0; PIECE as usize];
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((start, end)) = range.split_once('-').filter(|_| rights.starts_with("rw")) else { continue };
        let at = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let (mut start, end) = (at(start), at(end));
        while start < end {
            let wanted = PIECE.min(end - start) as usize;
            // Some of what is mapped cannot be read, such as a device.
            let Ok(read @ 1..) = memory.read_at(&mut piece[..wanted], start) else { break };
            input.write_all(&piece[..read]).expect("taken");
            start += read as u64;
        }
        // The end of one is no beginning of the next.
        input.write_all(&[0]).expect("taken");
    }
    drop(input);
    grep.wait().expect("grep ends").success()
}
