//! Our own standard input, on its way to a program.

use std::io::Read as _;

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces in which it is handed on.
const PIECE: usize = 64 * 1024;

/// What comes in, until its end. It is read on a thread that nobody waits for: a read from a pipe or a terminal that
/// stays open has no end.
pub fn pieces() -> mpsc::Receiver<Bytes> {
    let (pieces, read) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut piece = vec![0; PIECE];
        while let Ok(n @ 1..) = input.read(&mut piece) {
            if pieces.blocking_send(Bytes::copy_from_slice(&piece[..n])).is_err() {
                return;
            }
        }
    });
    read
}

/// A pipe or a file on standard input is meant for the program; a terminal or nothing is not.
pub fn is_for_the_program() -> bool {
    use rustix::fs::FileType;
    // Not by its name, `/dev/stdin`: not every machine has that.
    let kind = rustix::fs::fstat(std::io::stdin()).map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}
