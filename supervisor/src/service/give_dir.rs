//! Makes a directory of the user's where only root may make one.
//!
//! What an agent makes belongs to the user who asks for it. So root makes a directory beside the first that is missing, the
//! user makes the missing ones in it, and root moves them to their place: on any file system, and all or none.

use super::caller::Caller;
use super::error::ServiceError;
use super::files::LOOK;
use super::registry::Service;
use crate::agent::{
    AgentClient, AgentError, FileInfo, GuestPath, GuestUser, InvalidPath, MkdirOptions, Refusal, UserPath,
};

/// What the directory is called in which they are made.
const ASIDE: &str = ".rekindle-dir-";
/// Anyone may make directories in it, as long as it is there.
const OPEN: u32 = 0o777;

impl Service {
    /// Makes a directory for the sandbox's user, with the parents it needs, by a caller who may be root. What is there
    /// keeps its owner.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn give_dir(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &GuestPath,
    ) -> Result<FileInfo, ServiceError> {
        let name = getrandom::u64().map_err(ServiceError::Random)?;
        let aside = format!("{ASIDE}{name:016x}");
        let by_root = UserPath { user: GuestUser::Root, path: path.clone() };
        let call = self.file_call(caller, sandbox, "make_dir", &by_root)?;
        let done = match Place::all(path, &aside) {
            Ok(places) => call.wait(give(&call.sandbox().agent(), path, &places)).await,
            Err(error) => Err(ServiceError::invalid(error.to_string())),
        };
        call.done(&done);
        done
    }
}

/// What may be the first that is missing.
#[derive(Debug)]
struct Place {
    path: GuestPath,
    /// The directory beside it.
    aside: GuestPath,
    /// In it, what takes the place, and the last directory below that.
    first: GuestPath,
    last: GuestPath,
}

impl Place {
    /// A path and every one above it, the outermost first.
    fn all(path: &GuestPath, aside: &str) -> Result<Vec<Self>, InvalidPath> {
        let bytes = path.as_bytes();
        let ends = (1..=bytes.len()).filter(|end| bytes.get(*end).is_none_or(|byte| *byte == b'/'));
        ends.map(|end| {
            let (above, below) = bytes.split_at(end);
            let beside = above.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let aside = [&above[..beside], aside.as_bytes()].concat();
            let first = [&aside, &b"/d"[..]].concat();
            let last = [&first, below].concat();
            Ok(Self {
                path: GuestPath::new(above.to_vec())?,
                aside: GuestPath::new(aside)?,
                first: GuestPath::new(first)?,
                last: GuestPath::new(last)?,
            })
        })
        .collect()
    }

    /// Whether it is missing.
    async fn is_missing(&self, root: &AgentClient) -> Result<bool, AgentError> {
        match root.stat(&self.path, true, LOOK).await {
            Err(AgentError::Refused { kind: Refusal::NotFound, .. }) => Ok(true),
            found => found.map(|_| false),
        }
    }

    async fn fill(&self, user: &AgentClient, root: &AgentClient) -> Result<(), AgentError> {
        let parents = MkdirOptions { parents: true, ..MkdirOptions::default() };
        user.mkdir(&self.last, parents, LOOK).await?;
        root.rename(&self.first, &self.path, true, LOOK).await.map(drop)
    }
}

async fn give(agent: &AgentClient, path: &GuestPath, places: &[Place]) -> Result<FileInfo, AgentError> {
    let (user, root) = (agent.as_user(GuestUser::User), agent.as_user(GuestUser::Root));
    for place in places {
        if place.is_missing(&root).await? {
            root.mkdir(&place.aside, MkdirOptions { mode: OPEN, ..MkdirOptions::default() }, LOOK).await?;
            let filled = place.fill(&user, &root).await;
            let removed = root.remove(&place.aside, true, LOOK).await;
            filled.and(removed)?;
            break;
        }
    }
    root.stat(path, false, LOOK).await
}

#[cfg(test)]
mod tests {
    //! Which directories there are on a way.

    use super::*;

    #[test]
    fn the_outermost_comes_first_and_what_is_below_goes_with_it() {
        let told = |path: &str| {
            let path = GuestPath::new(path.to_owned()).expect("a path");
            let places = Place::all(&path, ".x").expect("paths");
            places
                .iter()
                .map(|place| format!("{} {} {}", place.path, place.aside, place.last))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            told("/a/bc/d"),
            ["/a /.x /.x/d/bc/d", "/a/bc /a/.x /a/.x/d/d", "/a/bc/d /a/bc/.x /a/bc/.x/d"]
        );
        let long = GuestPath::new(format!("/a/{}", "b".repeat(4_090))).expect("a path");
        assert!(Place::all(&long, ".rekindle-dir-0").is_err(), "no room for what is beside it");
    }
}
