//! Languages of contexts: the program that runs their code, and how a request to it is written.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::json;

use crate::agent::{Code, Language, Program};

const PYTHON: &str = concat!(include_str!("drivers/charts.py"), include_str!("drivers/python.py"));
const NODE: &str = include_str!("drivers/node.cjs");
const BASH: &str = include_str!("drivers/bash.sh");

/// A language that contexts speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeLanguage {
    /// Python 3.
    Python,
    /// JavaScript on Node.
    JavaScript,
    /// TypeScript on a Node that strips types.
    TypeScript,
    /// Bash.
    Bash,
}

impl CodeLanguage {
    /// The language of this name, in any of its usual spellings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "" | "python" | "python3" | "py" => Self::Python,
            "javascript" | "js" | "node" => Self::JavaScript,
            "typescript" | "ts" => Self::TypeScript,
            "bash" | "sh" => Self::Bash,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Bash => "bash",
        }
    }

    /// What runs its code: as code, so that an interpreter that waits in the snapshot can take it.
    pub(super) fn program(self) -> Program {
        let (language, source) = match self {
            Self::Python => (Language::Python, PYTHON),
            Self::JavaScript | Self::TypeScript => (Language::Node, NODE),
            Self::Bash => (Language::Bash, BASH),
        };
        Program::Code(Code { language: language.into(), source: source.to_owned() })
    }

    /// Whether an interrupt is for everything that runs in a context, because its program passes none on.
    pub(super) fn interrupts_everyone(self) -> bool {
        self == Self::Bash
    }

    /// A request to run code.
    pub(super) fn request(self, id: u64, code: &str, env: &BTreeMap<String, String>) -> Bytes {
        match self {
            Self::Bash => {
                let mut text = format!("{id}\0");
                // As long as the run: put back by what was set before, or taken away.
                for (name, value) in env {
                    let _ = write!(
                        text,
                        "[[ ${{{name}+x}} ]] && __rekindle_was_{name}=${name}; export {name}={}; ",
                        quoted(value)
                    );
                }
                text.push_str(code);
                if !env.is_empty() {
                    text.push_str("\n__rekindle_status=$?; ");
                }
                for name in env.keys() {
                    let _ = write!(
                        text,
                        "if [[ ${{__rekindle_was_{name}+x}} ]]; then {name}=$__rekindle_was_{name}; \
                         unset __rekindle_was_{name}; else unset {name}; fi; "
                    );
                }
                if !env.is_empty() {
                    text.push_str("(exit $__rekindle_status)");
                }
                text.push('\0');
                text.into()
            }
            Self::Python | Self::JavaScript | Self::TypeScript => {
                let mut line =
                    json!({"id": id, "code": code, "env": env, "language": self.name()}).to_string();
                line.push('\n');
                line.into()
            }
        }
    }

    /// Whether the code and the variables can be said to its program at all.
    pub(super) fn takes(self, code: &str, env: &BTreeMap<String, String>) -> bool {
        let plain = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        self != Self::Bash || !code.contains('\0') && env.keys().all(|name| plain(name))
    }
}

/// A word as a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    //! Names and requests.

    use super::*;

    #[test]
    fn languages_have_their_usual_names_and_no_others() {
        assert_eq!(CodeLanguage::named(" JS "), Some(CodeLanguage::JavaScript));
        assert_eq!(CodeLanguage::named(""), Some(CodeLanguage::Python));
        assert_eq!(CodeLanguage::named("r"), None);
        for language in
            [CodeLanguage::Python, CodeLanguage::JavaScript, CodeLanguage::TypeScript, CodeLanguage::Bash]
        {
            assert_eq!(CodeLanguage::named(language.name()), Some(language));
        }
    }

    #[test]
    fn a_request_is_one_line_or_ends_in_a_zero_byte() {
        let env = BTreeMap::from([("A".to_owned(), "it's".to_owned())]);
        let line = CodeLanguage::Python.request(7, "print(1)\nprint(2)", &env);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(line.ends_with(b"\n"));
        let text = CodeLanguage::Bash.request(7, "echo $A", &env);
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.starts_with("7\0") && text.ends_with('\0') && text.matches('\0').count() == 2,
            "{text:?}"
        );
        assert!(text.contains(r"export A='it'\''s'"), "{text}");
        assert!(!CodeLanguage::Bash.takes("a\0b", &BTreeMap::new()));
        let wrong = BTreeMap::from([("A;rm".to_owned(), String::new())]);
        assert!(!CodeLanguage::Bash.takes("", &wrong) && CodeLanguage::Python.takes("", &wrong));
    }
}

#[cfg(test)]
mod programs;
