//! The environment of an execution, built from nothing: what the agent itself was started with never leaks.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use rekindle_protocol::limits::{MAX_ARG_BYTES, MAX_ARGS, MAX_STRING_BYTES};
use rekindle_protocol::wire::EnvVar;

use crate::exec::account::Account;
use crate::failure::Failure;

/// Where programs are looked for unless the caller says otherwise, after what the user has installed for itself.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The same for root, who administers.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Environment {
    /// The defaults, then each list over what was there. The lists have been checked.
    pub fn build<'a>(
        account: &Account,
        terminal: bool,
        lists: impl IntoIterator<Item = &'a [EnvVar]>,
    ) -> Self {
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: &[u8]| variables.insert(name.as_bytes().to_vec(), value.to_vec());
        let own = [account.home.as_os_str().as_bytes(), b"/.local/bin:", PATH.as_bytes()].concat();
        set("PATH", if account.uid == 0 { ROOT_PATH.as_bytes() } else { &own });
        set("HOME", account.home.as_os_str().as_bytes());
        set("USER", account.name.as_bytes());
        set("TMPDIR", b"/tmp");
        set("LANG", b"C.UTF-8");
        set("PYTHONUNBUFFERED", b"1");
        if terminal {
            set("TERM", b"xterm-256color");
        }
        for list in lists {
            for variable in list {
                variables.insert(variable.name.to_vec(), variable.value.to_vec());
            }
        }
        Self { variables }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.variables.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// Sets a variable. Name and value have been checked.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.variables.insert(name.as_bytes().to_vec(), value.to_vec());
    }

    /// Every variable, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// As `execve` wants it. Names and values have been checked for NUL.
    pub fn to_c_strings(&self) -> Vec<CString> {
        let join = |(name, value): (&Vec<u8>, &Vec<u8>)| [name.as_slice(), b"=", value].concat();
        self.variables.iter().filter_map(|variable| CString::new(join(variable)).ok()).collect()
    }
}

/// Refuses variables no environment can hold.
///
/// # Errors
/// Names the first that is wrong.
pub fn check(list: &[EnvVar]) -> Result<(), Failure> {
    if list.len() > MAX_ARGS {
        return Err(Failure::invalid(format!("more than {MAX_ARGS} environment variables")));
    }
    let mut total = 0;
    for variable in list {
        let name = String::from_utf8_lossy(&variable.name);
        if variable.name.is_empty() || variable.name.iter().any(|byte| matches!(byte, b'=' | 0)) {
            return Err(Failure::invalid(format!("{name:?} cannot be the name of a variable")));
        }
        if variable.value.contains(&0) {
            return Err(Failure::invalid(format!("the value of {name} holds a NUL byte")));
        }
        let size = variable.name.len() + variable.value.len();
        total += size;
        if size > MAX_STRING_BYTES || total > MAX_ARG_BYTES {
            return Err(Failure::invalid(format!("the environment is too large at {name}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Defaults, overrides and refusals.

    use super::*;

    fn var(name: &str, value: &str) -> EnvVar {
        EnvVar { name: name.to_owned().into(), value: value.to_owned().into() }
    }

    #[test]
    fn it_holds_the_defaults_and_what_was_passed_and_nothing_else() {
        let account =
            Account { name: "user".into(), uid: 1000, gid: 1000, groups: vec![], home: "/home/user".into() };
        let lists = [vec![var("A", "1"), var("LANG", "de")], vec![var("A", "2")]];
        let environment = Environment::build(&account, false, lists.iter().map(Vec::as_slice));
        let all: Vec<String> =
            environment.to_c_strings().into_iter().map(|v| v.into_string().expect("text")).collect();
        assert_eq!(
            all,
            [
                "A=2",
                "HOME=/home/user",
                "LANG=de",
                "PATH=/home/user/.local/bin:/usr/local/bin:/usr/bin:/bin",
                "PYTHONUNBUFFERED=1",
                "TMPDIR=/tmp",
                "USER=user"
            ]
        );
    }

    #[test]
    fn names_and_values_that_cannot_be_are_refused() {
        for wrong in [var("", "x"), var("A=B", "x"), var("A\0", "x"), var("A", "x\0y")] {
            assert!(check(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
        }
        assert!(check(&[var("A", &"x".repeat(MAX_STRING_BYTES))]).is_err());
        assert!(check(&vec![var("A", "x"); MAX_ARGS + 1]).is_err());
        assert!(check(&[var("_weird.name-ok", "")]).is_ok());
    }
}
