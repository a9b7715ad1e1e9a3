//! What a child does to enter its set of namespaces, between fork and exec.
//!
//! Used by `spawn` only.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use super::namespace_set::NamespaceSet;
use super::spec::Namespaces;

/// The binds with everything allocated, for use between fork and exec.
pub(super) struct Entry {
    binds: Vec<(CString, CString, bool)>,
    network: OwnedFd,
}

impl Entry {
    pub(super) fn open(wanted: &Namespaces, set: &NamespaceSet) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let bind = |bind: &super::spec::Bind| Ok((text(&bind.source)?, text(&bind.target)?, bind.writable));
        Ok(Self { binds: wanted.binds.iter().map(bind).collect::<io::Result<_>>()?, network: set.network()? })
    }

    /// Enters its namespaces and makes the binds. System calls only.
    pub(super) fn enter(&self) -> io::Result<()> {
        setns(&self.network, CloneFlags::CLONE_NEWNET)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&CString>.map(CString::as_c_str);
        mount(none, c"/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)?;
        for (source, target, writable) in &self.binds {
            mount(Some(source.as_c_str()), target.as_c_str(), none, MsFlags::MS_BIND, none)?;
            let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
            if !writable {
                flags |= MsFlags::MS_RDONLY;
            }
            mount(none, target.as_c_str(), none, flags, none)?;
        }
        Ok(())
    }
}
