//! What the owners and groups of files are called in the guest. For descriptions of files alone: nothing is decided by
//! these names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rekindle_protocol::limits::MAX_OWNER_BYTES;

use crate::exec::account::{self, GROUP, PASSWD, Stamp};

/// Names by number.
#[derive(Debug, Default)]
pub struct AccountNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl AccountNames {
    fn parse(passwd: &str, group: &str) -> Self {
        Self { users: by_number(passwd), groups: by_number(group) }
    }

    /// The user's name; empty where it has none.
    pub fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_default()
    }

    /// The group's name; empty where it has none.
    pub fn group(&self, gid: u32) -> String {
        self.groups.get(&gid).cloned().unwrap_or_default()
    }
}

/// Both files have the name first and the number third. The first line for a number counts.
fn by_number(file: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in file.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(_), Some(number)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let plain = (1..=MAX_OWNER_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
        if let (true, Ok(number)) = (plain, number.parse()) {
            names.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    names
}

/// The names, remembered until a file that has them changes.
#[derive(Debug, Default)]
pub struct KnownNames {
    known: Mutex<Option<([Stamp; 2], Arc<AccountNames>)>>,
}

impl KnownNames {
    /// The names there are now; none where they cannot be read.
    pub fn get(&self) -> Arc<AccountNames> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Before reading: what changes meanwhile is noticed the next time.
        let now = [Stamp::of(PASSWD), Stamp::of(GROUP)];
        if let Some((then, names)) = &*known
            && *then == now
        {
            return names.clone();
        }
        let read = |path| account::read(path).unwrap_or_default();
        let names = Arc::new(AccountNames::parse(&read(PASSWD), &read(GROUP)));
        *known = Some((now, names.clone()));
        names
    }
}

#[cfg(test)]
mod tests {
    //! Lookup by number.

    use super::*;

    #[test]
    fn a_number_has_the_first_plain_name_there_is_for_it() {
        let long = "n".repeat(MAX_OWNER_BYTES + 1);
        let passwd = format!(
            "root:x:0:0::/root:\n{long}:x:7:\na\x1bb:x:8:\nuser:x:1000:5\nother:x:1000:\nx:y\n:x:9\n"
        );
        let names = AccountNames::parse(&passwd, "root:x:0:\nstaff:x:1000:user\nodd:x:-1:\n");
        assert_eq!((names.user(0), names.user(1000)), ("root".into(), "user".into()));
        assert_eq!((names.group(0), names.group(1000)), ("root".into(), "staff".into()));
        for nobody in [5, 7, 8, 9, u32::MAX] {
            assert_eq!((names.user(nobody), names.group(nobody)), Default::default(), "{nobody}");
        }
    }
}
