//! One command to the lab's server and what it answers. The other end is `xtask/lab/server.py`.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

/// The largest frame the server sends, with room.
const MAX_FRAME: u32 = 1 << 20;

/// How long the lab may take.
#[derive(Clone, Copy)]
pub struct Patience {
    /// Until it has begun: the request waits in the socket until the lab's server reads it, so a lab that still
    /// boots is fine.
    pub answer: Duration,
    /// Between two pieces of output; `None` waits for ever.
    pub silence: Option<Duration>,
}

/// Runs `command` and copies its output; the result is its exit code.
pub fn run(
    socket: &Path,
    command: &str,
    patience: Patience,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<i32> {
    let mut stream = UnixStream::connect(socket).context("the lab cannot be reached")?;
    let nonce = nonce();
    let request = serde_json::json!({ "nonce": nonce, "command": command });
    stream.write_all(format!("{request}\n").as_bytes()).context("the lab takes no command")?;
    stream.set_read_timeout(Some(patience.answer))?;
    let mut stream = BufReader::new(stream);
    skip_past(&mut stream, format!("lab {nonce}\n").as_bytes())?;
    stream.get_ref().set_read_timeout(patience.silence)?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("the lab ended in the middle of a command")?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        if length > MAX_FRAME {
            bail!("the lab sent something that is not understood");
        }
        let mut data = vec![0; usize::try_from(length)?];
        stream.read_exact(&mut data).context("the lab ended in the middle of a command")?;
        match head[0] {
            b'o' => out.write_all(&data).and_then(|()| out.flush())?,
            b'e' => err.write_all(&data).and_then(|()| err.flush())?,
            b'x' => return Ok(String::from_utf8_lossy(&data).parse()?),
            other => bail!("the lab sent a frame of unknown kind {other}"),
        }
    }
}

/// Reads until `mark`: before it may be what an earlier, interrupted command left.
fn skip_past(stream: &mut impl Read, mark: &[u8]) -> Result<()> {
    let mut window = Vec::new();
    let mut byte = [0];
    while !window.ends_with(mark) {
        stream.read_exact(&mut byte).context("the lab ended before it answered")?;
        window.push(byte[0]);
        if window.len() > 4 * mark.len() {
            window.drain(..2 * mark.len());
        }
    }
    Ok(())
}

fn nonce() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), now.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::skip_past;

    #[test]
    fn leftovers_before_the_answer_are_skipped() {
        let mut bytes = &b"half a frame of before, lab 1-2lab 1-3\nrest"[..];
        skip_past(&mut bytes, b"lab 1-3\n").unwrap();
        assert_eq!(bytes, b"rest");
        assert!(skip_past(&mut &b"lab 9-9"[..], b"lab 1-3\n").is_err());
    }
}
