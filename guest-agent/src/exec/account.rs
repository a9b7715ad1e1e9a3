//! Who an execution runs as, read from `/etc/passwd` and `/etc/group` of the guest.
//!
//! Read by hand because a static binary has no name service to ask, and remembered because every execution asks:
//! reading costs an emulated guest half a millisecond.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const GROUP: &str = "/etc/group";
/// More than this is not read of either.
const MAX_BYTES: u64 = 1 << 20;

/// A user of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: PathBuf,
}

impl Account {
    /// Looks up a login name.
    ///
    /// # Errors
    /// `NotFound` when nobody is called that.
    pub fn find(name: &str) -> io::Result<Self> {
        let passwd = read(PASSWD)?;
        let group = read(GROUP).unwrap_or_default();
        Self::parse(name, &passwd, &group)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no user {name:?} here")))
    }

    fn parse(name: &str, passwd: &str, group: &str) -> Option<Self> {
        let fields: Vec<&str> = passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields[0] == name)?;
        let [_, _, uid, gid, _, home, ..] = fields[..] else { return None };
        let gid = gid.parse().ok()?;
        let mut groups = vec![gid];
        for line in group.lines() {
            let [_, _, id, members] = line.split(':').collect::<Vec<_>>()[..] else { continue };
            if let (true, Ok(id)) = (members.split(',').any(|member| member == name), id.parse()) {
                groups.push(id);
            }
        }
        groups.sort_unstable();
        groups.dedup();
        Some(Self { name: name.into(), uid: uid.parse().ok()?, gid, groups, home: home.into() })
    }
}

/// One account, remembered until a file that describes it changes: root may do that inside a guest.
#[derive(Debug, Default)]
pub struct KnownAccount {
    known: Mutex<Option<([Stamp; 2], Account)>>,
}

impl KnownAccount {
    /// The account called `name`, which must always be the same.
    ///
    /// # Errors
    /// See [`Account::find`].
    pub fn get(&self, name: &str) -> io::Result<Account> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Before reading: what changes meanwhile is noticed the next time.
        let now = [Stamp::of(PASSWD), Stamp::of(GROUP)];
        if let Some((then, account)) = &*known
            && *then == now
        {
            return Ok(account.clone());
        }
        let account = Account::find(name)?;
        *known = Some((now, account.clone()));
        Ok(account)
    }
}

/// Reads such a file. Root may put anything in its place: a pipe, or one without an end.
pub(super) fn read(path: &str) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{path} is no file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What tells one state of a file from another: which file it is, and when it was changed. Nothing if there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, u64, i64, i64)>);

impl Stamp {
    pub(super) fn of(path: &str) -> Self {
        let facts = fs::metadata(path).ok();
        Self(facts.map(|facts| (facts.ino(), facts.size(), facts.ctime(), facts.ctime_nsec())))
    }
}

#[cfg(test)]
mod tests {
    //! Lookup by exact name, with supplementary groups.

    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nbroken:x\n";
    const GROUPS: &str = "root:x:0:\nuser:x:1000:\ndialout:x:20:other,user\nvideo:x:44:user2\n";

    #[test]
    fn a_user_is_found_with_all_groups() {
        let user = Account::parse("user", USERS, GROUPS).expect("it is there");
        assert_eq!((user.uid, user.gid, user.groups), (1000, 1000, vec![20, 1000]));
        assert_eq!(user.home, PathBuf::from("/home/user"));
    }

    #[test]
    fn nobody_else_is() {
        for name in ["use", "user2", "", "broken", "1000"] {
            assert_eq!(Account::parse(name, USERS, GROUPS), None, "{name:?}");
        }
    }

    #[test]
    fn a_file_that_was_changed_or_replaced_has_another_stamp() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passwd");
        let stamp = || Stamp::of(path.to_str().expect("a plain name"));
        let mut seen = vec![stamp()];
        for content in ["one", "another", ""] {
            fs::write(dir.path().join("new"), content).expect("written");
            fs::rename(dir.path().join("new"), &path).expect("replaced");
            assert_eq!(stamp(), stamp(), "nothing changed");
            assert!(!seen.contains(&stamp()), "{content:?}");
            seen.push(stamp());
        }
        fs::write(&path, "changed in place").expect("written");
        assert!(!seen.contains(&stamp()));
    }
}
