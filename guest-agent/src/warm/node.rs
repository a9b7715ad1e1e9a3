//! Parked Node processes: each is started, and waits in `park.cjs` of the image before its program.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rekindle_protocol::wire::EnvVar;

use crate::agent::Agent;
use crate::warm::line::Line;
use crate::warm::parked::Parked;
use crate::warm::start::spawn;

/// Starts one and waits until it is parked.
///
/// # Errors
/// When there is no Node, or it does not come so far.
pub async fn park(agent: &Agent) -> io::Result<Parked> {
    let script = CString::new(agent.config.programs.join("park.cjs").as_os_str().as_bytes())?;
    // The program is replaced before Node looks at it.
    let argv = vec![c"node".to_owned(), c"--require".to_owned(), script, c"-e".to_owned(), c"0".to_owned()];
    let (line, theirs) = Line::lay()?;
    let (child, exit) = spawn(agent, argv, &[no_io_uring()], &theirs.each_ref().map(AsFd::as_fd)).await?;
    drop(theirs);
    line.hear(|heard| heard.contains(&b'.')).await?;
    Ok(Parked { pid: child.pid, pidfd: child.pidfd, exit, line, prepared: None })
}

/// Node refuses to change its user while its event loop may use io_uring, whose requests keep the old one's
/// rights. The variable is gone from the environment when the program starts.
fn no_io_uring() -> EnvVar {
    EnvVar { name: "UV_USE_IO_URING".into(), value: "0".into() }
}
