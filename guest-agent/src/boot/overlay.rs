//! Makes the root writable: the image stays the read-only lower layer, writes go to memory above it.
//!
//! The scratch disk comes later, at the restore gate, over the few directories the sandbox's user writes to;
//! so one snapshot serves clones with and without a disk.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};

use crate::boot::layer;

/// An empty directory every image has.
const STAGE: &str = "/mnt";

/// Puts an overlay over `/` and moves into it. What was written above the image by an earlier machine, and saved on
/// `disk`, is there from the beginning.
///
/// # Errors
/// When the kernel refuses a step, or what was saved cannot be read.
pub fn make_root_writable(disk: Option<&Path>) -> io::Result<()> {
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
    if let Some(disk) = disk {
        layer::load(disk, Path::new(&root), Path::new(&upper))?;
    }
    layer::remember(File::open(&upper)?);
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
