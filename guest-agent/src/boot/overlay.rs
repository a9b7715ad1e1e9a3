//! Makes the root writable: the image stays the read-only lower layer, writes go to memory above it.
//!
//! The scratch disk comes later, at the restore gate, over the few directories the sandbox's user writes to;
//! so one snapshot serves clones with and without a disk.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};

/// An empty directory every image has.
const STAGE: &str = "/mnt";

/// Puts an overlay over `/` and moves into it.
///
/// # Errors
/// When the kernel refuses a step.
pub fn make_root_writable() -> io::Result<()> {
    let none = None::<&str>;
    mount(
        Some("tmpfs"),
        STAGE,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=0755,size=50%"),
    )?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| format!("{STAGE}/{name}"));
    for dir in [&upper, &work, &root] {
        fs::create_dir(dir)?;
    }
    let layers = format!("lowerdir=/,upperdir={upper},workdir={work}");
    mount(Some("overlay"), root.as_str(), Some("overlay"), MsFlags::empty(), Some(layers.as_str()))?;
    for dir in ["proc", "sys", "dev"] {
        let (from, to) = (format!("/{dir}"), format!("{root}/{dir}"));
        mount(Some(from.as_str()), to.as_str(), none, MsFlags::MS_MOVE, none)?;
    }
    chdir(root.as_str())?;
    mount(Some("."), "/", none, MsFlags::MS_MOVE, none)?;
    chroot(".")?;
    chdir("/")?;
    Ok(())
}
