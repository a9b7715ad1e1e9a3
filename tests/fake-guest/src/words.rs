//! The words a fake guest understands, in a command, a shell line or source text alike; `;` and line ends
//! separate several, which run until one fails.
//!
//! | word | what happens |
//! |---|---|
//! | `true`, `pass` | nothing |
//! | `echo TEXT…`, `err TEXT…` | the text and a line end on stdout, or on stderr |
//! | `cat` | standard input on stdout, as it arrives |
//! | `cat PATH` | a file on stdout |
//! | `write PATH TEXT…` | a file with that content |
//! | `sleep MS` | so many milliseconds pass |
//! | `flood N` | so many bytes on stdout |
//! | `env NAME` | the variable's value on stdout, or a failure |
//! | `connect HOST PORT TEXT…` | a connection to the outside that says the text and a line end: what it hears on stdout, or `denied` and why on stderr and a failure |
//! | `clock` | where its clock starts, in nanoseconds since 1970, and its time zone, on stdout |
//! | `whoami` | whose program it is, on stdout |
//! | `message JSON` | a message of a code interpreter's context |
//! | `pieces N` | so many pieces of a message that does not end |
//! | `hostname` | the guest's name on stdout |
//! | `oom` | the execution ends as out of memory |
//! | `kill SIGNAL` | it ends by that signal |
//! | `fail CODE` | it ends with that exit code |
//! | anything else | a message on stderr and exit code 127 |

use rekindle_protocol::wire::execute_request::Program;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    Nothing,
    /// Write text.
    Say {
        /// To stderr instead of stdout.
        error: bool,
        /// The text, its line end included.
        text: String,
    },
    /// Copy standard input to stdout.
    Cat,
    /// Copy a file to stdout.
    Show(String),
    /// Make a file.
    Write {
        /// Where.
        path: String,
        /// What is in it.
        text: String,
    },
    /// Let milliseconds pass.
    Sleep(u64),
    /// Write that many bytes.
    Flood(u64),
    /// Show a variable.
    Env(String),
    /// Connect to the outside.
    Connect {
        /// To whom.
        host: String,
        /// On which port.
        port: u16,
        /// What to say, its line end included.
        text: String,
    },
    /// Show its clock.
    Clock,
    /// Show whose program it is.
    Whoami,
    /// Send a message of a context's program.
    Message(String),
    /// Send pieces of one that goes on.
    Pieces(u64),
    /// Show the guest's name.
    Hostname,
    /// Run out of memory.
    OutOfMemory,
    /// End by a signal.
    Kill(u32),
    /// End with an exit code.
    Fail(u8),
    /// No such word.
    Unknown(String),
}

/// The program as text, for the record.
#[must_use]
pub fn text(program: &Program) -> String {
    match program {
        Program::Command(command) => {
            let words: Vec<_> = command.argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
            words.join(" ")
        }
        Program::Shell(line) => line.clone(),
        Program::Code(code) => code.source.clone(),
    }
}

/// What a text asks for.
#[must_use]
pub fn parse(text: &str) -> Vec<Word> {
    text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(word).collect()
}

fn word(part: &str) -> Word {
    let (name, rest) = part.split_once(' ').unwrap_or((part, ""));
    let said = |error| Word::Say { error, text: format!("{rest}\n") };
    let unknown = || Word::Unknown(name.to_owned());
    match name {
        "true" | "pass" => Word::Nothing,
        "echo" => said(false),
        "err" => said(true),
        "cat" if rest.is_empty() => Word::Cat,
        "cat" => Word::Show(rest.to_owned()),
        "write" => {
            let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
            Word::Write { path: path.to_owned(), text: text.to_owned() }
        }
        "sleep" => rest.parse().map_or_else(|_| unknown(), Word::Sleep),
        "flood" => rest.parse().map_or_else(|_| unknown(), Word::Flood),
        "env" => Word::Env(rest.to_owned()),
        "connect" => {
            let (host, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let (port, text) = rest.split_once(' ').unwrap_or((rest, ""));
            match port.parse() {
                Ok(port) => Word::Connect { host: host.to_owned(), port, text: format!("{text}\n") },
                Err(_) => unknown(),
            }
        }
        "clock" => Word::Clock,
        "whoami" => Word::Whoami,
        "message" => Word::Message(rest.to_owned()),
        "pieces" => rest.parse().map_or_else(|_| unknown(), Word::Pieces),
        "hostname" => Word::Hostname,
        "oom" => Word::OutOfMemory,
        "kill" => rest.parse().map_or_else(|_| unknown(), Word::Kill),
        "fail" => rest.parse().map_or_else(|_| unknown(), Word::Fail),
        _ => unknown(),
    }
}

#[cfg(test)]
mod tests {
    //! Lines and what they mean.

    use super::*;

    #[test]
    fn a_line_is_split_into_words_and_what_is_none_is_unknown() {
        let say = |text: &str| Word::Say { error: false, text: text.to_owned() };
        assert_eq!(parse("echo a b; sleep 5\nfail 3"), [say("a b\n"), Word::Sleep(5), Word::Fail(3)]);
        assert_eq!(parse("import pandas"), [Word::Unknown("import".to_owned())]);
        assert_eq!(parse("sleep long"), [Word::Unknown("sleep".to_owned())]);
        assert_eq!(parse(" ;\n"), []);
    }
}
