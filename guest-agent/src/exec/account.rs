//! Who an execution runs as, read from `/etc/passwd` and `/etc/group` of the guest.
//!
//! Read by hand because a static binary has no name service to ask.

use std::fs;
use std::io;
use std::path::PathBuf;

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
        let passwd = fs::read_to_string("/etc/passwd")?;
        let group = fs::read_to_string("/etc/group").unwrap_or_default();
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

#[cfg(test)]
mod tests {
    //! Lookup by exact name, with supplementary groups.

    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nbroken:x\n";
    const GROUP: &str = "root:x:0:\nuser:x:1000:\ndialout:x:20:other,user\nvideo:x:44:user2\n";

    #[test]
    fn a_user_is_found_with_all_groups() {
        let user = Account::parse("user", PASSWD, GROUP).expect("it is there");
        assert_eq!((user.uid, user.gid, user.groups), (1000, 1000, vec![20, 1000]));
        assert_eq!(user.home, PathBuf::from("/home/user"));
    }

    #[test]
    fn nobody_else_is() {
        for name in ["use", "user2", "", "broken", "1000"] {
            assert_eq!(Account::parse(name, PASSWD, GROUP), None, "{name:?}");
        }
    }
}
