//! `exec -it`: a real terminal at both ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use rekindle_e2e::cli::{command, rekindle};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::PATIENCE;

/// Our end of a terminal.
struct Screen {
    keys: File,
    seen: String,
    pieces: Receiver<Vec<u8>>,
}

impl Screen {
    fn new(master: OwnedFd) -> Self {
        let keys = File::from(master);
        let mut screen = keys.try_clone().expect("a descriptor");
        let (sender, pieces) = channel();
        // A read from a terminal has no deadline; the thread ends with the other end.
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keys, seen: String::new(), pieces }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("typed");
    }

    /// Waits for words, and forgets everything up to them.
    fn wait_for(&mut self, words: &str) {
        let began = Instant::now();
        while !self.seen.contains(words) {
            match self.pieces.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("{words:?} is not in {:?}: {error}", self.seen),
            }
        }
        let at = self.seen.find(words).expect("it is there") + words.len();
        self.seen.drain(..at);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interactive_shell_has_a_terminal_of_our_size_and_all_keys_reach_it() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let address = server.address();
    let created = rekindle(data.path(), &["create", "--server", &address]).await;
    let id = created.stdout.trim_end();

    let size = Winsize { ws_row: 33, ws_col: 101, ws_xpixel: 0, ws_ypixel: 0 };
    let ends = openpty(Some(&size), None).expect("a terminal");
    let mut exec = command(data.path(), &["exec", "--server", &address, "-it", id, "--", "sh"]);
    let other = || Stdio::from(ends.slave.try_clone().expect("a descriptor"));
    let mut child = exec.stdin(other()).stdout(other()).stderr(other()).spawn().expect("started");
    // The command keeps descriptors of its own for a second use.
    drop(exec);
    drop(ends.slave);
    let mut screen = Screen::new(ends.master);
    let (mut screen, status) = {
        let session = tokio::task::spawn_blocking(move || {
            // What is typed is echoed: the answers are not in the questions.
            screen.press(b"stty size; tty; echo me$((40 + 2))\r");
            screen.wait_for("33 101");
            screen.wait_for("/dev/pts/");
            screen.wait_for("me42");
            // Ctrl-C ends what runs there, not the command here.
            screen.press(b"sleep 1000\r");
            screen.wait_for("sleep 1000");
            std::thread::sleep(Duration::from_millis(300));
            screen.press(b"\x03");
            screen.press(b"echo st$((4 + 5))ll\r");
            screen.wait_for("st9ll");
            screen.press(b"exit 5\r");
            screen
        });
        let screen = session.await.expect("a session");
        (screen, tokio::time::timeout(PATIENCE, child.wait()).await.expect("in time").expect("ends"))
    };
    assert_eq!(status.code(), Some(5), "{}", screen.seen);
    screen.seen.clear();
    let timeline = rekindle(data.path(), &["timeline", "--server", &address, "--json", id]).await.json();
    assert_eq!(timeline["entries"][1]["outcome"], "exited:5", "{timeline}");
    server.stop(&leftovers::machines(data.path())).await;
}
