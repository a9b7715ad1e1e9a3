//! What somebody noted at a file: the extended attributes `user.e2b.<name>`, where E2B's SDKs look for them too.
//!
//! They are reached through `/proc/self/fd`, since the calls that take a descriptor refuse one that is a mere handle.
//! Programs of the sandbox write these attributes as well: whatever does not obey the protocol's rule is left out.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;
use rekindle_protocol::limits::{MAX_METADATA_BYTES, MAX_METADATA_PAIRS};
use rekindle_protocol::metadata::{is_name, is_value};
use rekindle_protocol::wire::FileMetadata;

/// What the names of these attributes begin with.
const PREFIX: &[u8] = b"user.e2b.";
/// Bytes of names that a file most likely has at most.
const USUAL_LIST: usize = 1024;
/// Bytes of names that the kernel ever tells: `XATTR_LIST_MAX`.
const LONGEST_LIST: usize = 65_536;

/// Bytes of a value that the kernel ever keeps: `XATTR_SIZE_MAX`.
const LONGEST_VALUE: usize = 65_536;

/// A file whose attributes are asked for.
pub struct Attributes {
    path: CString,
    /// Whether the end of the path is a link to follow, which the one of a descriptor is.
    follow: bool,
}

impl Attributes {
    /// Those of a path; a link at its end is not followed.
    ///
    /// # Errors
    /// When the path holds a NUL.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        Ok(Self { path: CString::new(path.as_os_str().as_bytes())?, follow: false })
    }

    /// Gives another file all attributes of this one, whatever they are for, but those that are not `wanted`.
    ///
    /// # Errors
    /// What the system says.
    pub fn copy_to(&self, other: &Self, wanted: impl Fn(&[u8]) -> bool) -> nix::Result<()> {
        let list = match self.list(USUAL_LIST) {
            Err(Errno::EOPNOTSUPP) => return Ok(()),
            Err(Errno::ERANGE) => self.list(LONGEST_LIST)?,
            list => list?,
        };
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty() && wanted(name));
        for name in names.filter_map(|name| CString::new(name).ok()) {
            other.set(&name, &self.get(&name, LONGEST_VALUE)?)?;
        }
        Ok(())
    }

    /// Those of an opened file.
    ///
    /// # Errors
    /// Never: a number holds no NUL.
    pub fn of_open(file: impl AsFd) -> io::Result<Self> {
        Ok(Self { path: CString::new(descriptor(&file))?, follow: true })
    }

    /// Those of a name in an opened directory; a link there is not followed.
    ///
    /// # Errors
    /// Never: a name that came from the kernel holds no NUL.
    pub fn of_entry(dir: impl AsFd, name: &CStr) -> io::Result<Self> {
        let path = [descriptor(&dir).as_bytes(), b"/", name.to_bytes()].concat();
        Ok(Self { path: CString::new(path)?, follow: false })
    }

    /// All that obey the rule and that the user may read, sorted by name, as many as fit.
    pub fn read(&self) -> Vec<FileMetadata> {
        let mut names = self.names().unwrap_or_default();
        names.sort_unstable();
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        for name in names {
            let Some(pair) = self.pair(&name) else { continue };
            bytes += pair.name.len() + pair.value.len();
            if pairs.len() == MAX_METADATA_PAIRS || bytes > MAX_METADATA_BYTES {
                break;
            }
            pairs.push(pair);
        }
        pairs
    }

    /// Makes these all there are. The pairs were checked.
    ///
    /// # Errors
    /// What the system says: `EOPNOTSUPP` where the file system keeps none.
    pub fn replace(&self, pairs: &[FileMetadata]) -> nix::Result<()> {
        let wanted: Vec<(CString, &[u8])> =
            pairs.iter().filter_map(|pair| Some((attribute(&pair.name)?, pair.value.as_bytes()))).collect();
        let stale = match self.names() {
            Err(Errno::EOPNOTSUPP) if pairs.is_empty() => return Ok(()),
            names => names?,
        };
        for name in stale.iter().filter(|name| wanted.iter().all(|(other, _)| other != *name)) {
            match self.remove(name) {
                Ok(()) | Err(Errno::ENODATA) => {}
                Err(error) => return Err(error),
            }
        }
        wanted.iter().try_for_each(|(name, value)| self.set(name, value))
    }

    fn pair(&self, attribute: &CStr) -> Option<FileMetadata> {
        let name = std::str::from_utf8(attribute.to_bytes().strip_prefix(PREFIX)?).ok()?;
        if !is_name(name) {
            return None;
        }
        let value = String::from_utf8(self.get(attribute, MAX_METADATA_BYTES).ok()?)
            .ok()
            .filter(|value| is_value(value))?;
        Some(FileMetadata { name: name.to_owned(), value })
    }

    /// The names of the attributes that are metadata.
    fn names(&self) -> nix::Result<Vec<CString>> {
        let list = match self.list(USUAL_LIST) {
            Err(Errno::ERANGE) => self.list(LONGEST_LIST)?,
            list => list?,
        };
        let names = list.split(|byte| *byte == 0).filter(|name| name.starts_with(PREFIX));
        Ok(names.filter_map(|name| CString::new(name).ok()).collect())
    }

    fn list(&self, room: usize) -> nix::Result<Vec<u8>> {
        let mut list = vec![0_u8; room];
        let call = if self.follow { libc::listxattr } else { libc::llistxattr };
        // SAFETY: the path ends in NUL, and the kernel writes at most as many bytes as the vector has.
        // JUSTIFICATION: neither the standard library nor nix has this call.
        let read = unsafe { call(self.path.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
        list.truncate(usize::try_from(Errno::result(read)?).unwrap_or(0));
        Ok(list)
    }

    fn get(&self, name: &CStr, room: usize) -> nix::Result<Vec<u8>> {
        let mut value = vec![0_u8; room];
        let call = if self.follow { libc::getxattr } else { libc::lgetxattr };
        // SAFETY: path and name end in NUL, and the kernel writes at most as many bytes as the vector has.
        // JUSTIFICATION: neither the standard library nor nix has this call.
        let read = unsafe { call(self.path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        value.truncate(usize::try_from(Errno::result(read)?).unwrap_or(0));
        Ok(value)
    }

    fn set(&self, name: &CStr, value: &[u8]) -> nix::Result<()> {
        let call = if self.follow { libc::setxattr } else { libc::lsetxattr };
        // SAFETY: path and name end in NUL, and the kernel reads as many bytes as the value has.
        // JUSTIFICATION: neither the standard library nor nix has this call.
        let set = unsafe { call(self.path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
        Errno::result(set).map(drop)
    }

    fn remove(&self, name: &CStr) -> nix::Result<()> {
        let call = if self.follow { libc::removexattr } else { libc::lremovexattr };
        // SAFETY: path and name end in NUL.
        // JUSTIFICATION: neither the standard library nor nix has this call.
        let removed = unsafe { call(self.path.as_ptr(), name.as_ptr()) };
        Errno::result(removed).map(drop)
    }
}

fn descriptor(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn attribute(name: &str) -> Option<CString> {
    CString::new([PREFIX, name.as_bytes()].concat()).ok()
}
