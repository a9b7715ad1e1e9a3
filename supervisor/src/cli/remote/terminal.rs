//! This process's terminal in another mode, and back: on drop, and before a panic is printed. Signals that end
//! the process are caught by whoever enters the mode, which drops it. Used by `exec -it` and `top`.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use anyhow::Context;
use rekindle_api::v1::TerminalSize;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Size of a terminal where there is none to ask.
const DEFAULT_SIZE: TerminalSize = TerminalSize { rows: 24, columns: 80 };
/// The other screen, without a cursor; and back.
const ENTER_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE_SCREEN: &str = "\x1b[?25h\x1b[?1049l";

/// What has to be put back. In one place for the process, because a panic on any thread must find it.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// A mode to enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every key goes to the reader and every byte to the screen.
    Raw,
    /// Every key goes to the reader, and lines are drawn on a screen of their own.
    Screen,
}

struct Saved {
    termios: Termios,
    mode: Mode,
}

/// The terminal is in another mode while this lives.
#[derive(Debug)]
pub struct Terminal(());

impl Terminal {
    /// Enters a mode.
    pub fn enter(mode: Mode) -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).context("cannot read the terminal's mode")?;
        let after = changed(&before, mode);
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                print(panic);
            }));
        });
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Saved { termios: before, mode });
        // From here on whatever fails is undone.
        let entered = Self(());
        tcsetattr(&stdin, OptionalActions::Now, &after).context("cannot change the terminal's mode")?;
        if mode == Mode::Screen {
            show(ENTER_SCREEN);
        }
        Ok(entered)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts back what was saved, once.
fn restore() {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Saved { termios, mode }) = saved {
        if mode == Mode::Screen {
            show(LEAVE_SCREEN);
        }
        // There is nobody left to tell.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &termios);
    }
}

fn show(sequence: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
}

fn changed(before: &Termios, mode: Mode) -> Termios {
    let mut after = before.clone();
    match mode {
        Mode::Raw => after.make_raw(),
        Mode::Screen => after.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG),
    }
    after
}

/// The size of the terminal this process is on.
pub fn size() -> TerminalSize {
    let asked = [tcgetwinsize(std::io::stdout()), tcgetwinsize(std::io::stdin())];
    let known = asked.into_iter().flatten().find(|size| size.ws_row > 0 && size.ws_col > 0);
    known.map_or(DEFAULT_SIZE, |size| TerminalSize { rows: size.ws_row.into(), columns: size.ws_col.into() })
}

/// Whether a person sits at both ends.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    //! Modes, on a terminal of the test's own.

    use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};

    use super::*;

    fn termios() -> Termios {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("ours");
        tcgetattr(&terminal).expect("its mode")
    }

    #[test]
    fn keys_that_are_signals_go_to_the_reader() {
        let before = termios();
        assert!(before.local_modes.contains(LocalModes::ISIG | LocalModes::ICANON));
        for mode in [Mode::Raw, Mode::Screen] {
            let after = changed(&before, mode);
            assert!(!after.local_modes.intersects(LocalModes::ISIG | LocalModes::ICANON | LocalModes::ECHO));
        }
    }

    #[test]
    fn only_a_raw_terminal_leaves_line_ends_to_the_program() {
        let before = termios();
        assert_eq!(changed(&before, Mode::Screen).output_modes, before.output_modes);
        assert_ne!(changed(&before, Mode::Raw).output_modes, before.output_modes);
    }
}
