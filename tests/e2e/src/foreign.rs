//! Servers of other people's on the host's loopback, as processes. They are killed when dropped, and when the test program
//! goes away, however it does.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rekindle_test_support::wait::until_answer;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::sweeper;

/// Ports to try: they must be chosen before the server runs, and another may be quicker.
const TRIES: usize = 5;

/// A server that runs.
#[derive(Debug)]
pub struct Foreign {
    address: SocketAddr,
    child: Child,
    sweeper: std::process::Child,
    log: PathBuf,
}

impl Foreign {
    /// Starts what `command` makes for an address, and waits until it takes connections there. Its log goes to `dir`.
    ///
    /// # Panics
    /// When it does not.
    pub async fn start(name: &str, dir: &Path, command: impl Fn(SocketAddr) -> Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        for _ in 0..TRIES {
            let address = free_address();
            let output = File::options().append(true).create(true).open(&log).expect("a log");
            let mut command = command(address);
            command.stdin(Stdio::null()).stdout(output.try_clone().expect("a log")).stderr(output);
            let child = command.kill_on_drop(true).spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
            let sweeper = sweeper::after_this_process_kill(child.id().expect("it runs"));
            let mut server = Self { address, child, sweeper, log: log.clone() };
            if server.serves(name).await {
                return server;
            }
        }
        panic!("{name} does not serve: {}", fs::read_to_string(&log).unwrap_or_default());
    }

    /// Whether it takes connections, or ends before it does.
    async fn serves(&mut self, name: &str) -> bool {
        let (address, child) = (self.address, &mut self.child);
        until_answer(&format!("{name} serves"), async || {
            if child.try_wait().expect("waited for").is_some() {
                return Some(false);
            }
            TcpStream::connect(address).await.is_ok().then_some(true)
        })
        .await
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that it said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // The child kills itself: `kill_on_drop`.
        let _ = self.sweeper.kill();
        let _ = self.sweeper.wait();
        if std::thread::panicking() {
            eprintln!("what the server said:\n{}", self.log());
        }
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}
