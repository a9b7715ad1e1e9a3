//! The lab's host: Debian's generic kernel and a small root image, built once and cached.
//!
//! The cloud kernel has no 9p, so it is the generic one; of its modules only those that are needed stay.
//! The kernel is unpacked here, because doing that on an emulated processor takes seconds at every boot.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::cache::{Built, Cache, MANIFEST};
use crate::hash::Key;
use crate::hint::Hint;
use crate::job::{Job, bound_command};
use crate::rootfs::{EPOCH, Mirrors, debootstrap, mirrors, quote, script};
use crate::{hygiene, repo, setup};

/// The unpacked kernel.
pub const KERNEL: &str = "vmlinux";
/// The initial RAM disk.
pub const INITRD: &str = "initrd.cpio";
/// The root image.
pub const ROOT: &str = "root.erofs";

/// Newer than any machine that builds the tests is likely to be: its C library runs their programs.
const RELEASE: &str = "trixie";
const PACKAGES: &[&str] = &[
    "linux-image-amd64",
    "kmod",
    "busybox-static",
    "cpio",
    "xz-utils",
    "zstd",
    "python3",
    "e2fsprogs",
    "iproute2",
    "ca-certificates",
    "procps",
    // For the package's unit alone; the lab's first process is its own.
    "systemd",
    // For the servers of the network's tests, with Python: git's own, and npm's registry.
    "git",
    "nodejs",
];
/// The scripts, in the order they are hashed.
const SCRIPTS: [&str; 4] = ["customize.sh", "init", "initrd-init", "server.py"];
/// Raised when the way of building changes.
const FORMAT: &str = "1";
const UUID: &str = "6c616200-0000-4000-8000-000000000000";

/// The lab's image, built if it is not there.
pub fn build(cache: &Cache) -> Result<Built> {
    let key = key()?;
    cache.build("lab", &key, |work| {
        let mut job = Job::start(cache, "lab image")?;
        make(cache, &mut job, work)?;
        let manifest = serde_json::json!({ "key": key, "release": RELEASE });
        fs::write(work.join(MANIFEST), format!("{manifest:#}\n"))?;
        job.finish("built");
        Ok(())
    })
}

fn key() -> Result<String> {
    let mut key = Key::default()
        .add("format", FORMAT)
        .add("release", RELEASE)
        .add("packages", PACKAGES.join(","))
        .add("mmdebstrap", setup::installed_version("mmdebstrap")?.unwrap_or_default());
    for name in SCRIPTS {
        key = key.add(name, fs::read(scripts().join(name)).with_context(|| format!("cannot read {name}"))?);
    }
    Ok(key.finish())
}

fn make(cache: &Cache, job: &mut Job, work: &Path) -> Result<()> {
    let debs = cache.root().join("debs").join(RELEASE);
    fs::create_dir_all(&debs)?;
    let inputs = work.join("inputs");
    fs::create_dir(&inputs)?;
    for name in SCRIPTS {
        fs::copy(scripts().join(name), inputs.join(name))?;
    }
    job.step(&format!("installing Debian {RELEASE} with its generic kernel"))?;
    let tar = work.join("root.tar");
    job.run(&mut bootstrap(work, &debs, &inputs, &tar))?;
    hygiene::no_mounts_under(work)?;
    fs::remove_dir_all(&inputs)?;

    job.step("packing")?;
    let (tree, owners) = (work.join("tree"), work.join("owners"));
    job.run(script(None, &owners, "unpack").arg(&tree).arg(&tar))?;
    job.run(script(Some(&owners), &owners, "pack").arg(&tree).arg(work.join(ROOT)).args([EPOCH, UUID]))?;
    fs::remove_file(&tar)?;
    fs::remove_dir_all(&tree)?;
    let _ = fs::remove_file(&owners);

    job.step("unpacking the kernel")?;
    let packed = work.join("vmlinuz");
    unpack_kernel(&packed, &work.join(KERNEL))?;
    fs::remove_file(packed)?;
    Ok(())
}

fn bootstrap(work: &Path, debs: &Path, inputs: &Path, tar: &Path) -> std::process::Command {
    let Mirrors { main, security } = mirrors();
    let mut command = debootstrap();
    if geteuid().is_root() {
        command.env("TMPDIR", work);
    }
    command.env("SOURCE_DATE_EPOCH", EPOCH).env("LC_ALL", "C.UTF-8");
    command
        .args(["--variant=essential", "--skip=essential/unlink", "--dpkgopt=force-unsafe-io"])
        .args(["--aptopt=Acquire::Retries \"2\"", "--aptopt=Acquire::http::Timeout \"20\""])
        .args(["--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\""])
        .arg(format!("--include={}", PACKAGES.join(",")))
        .arg("--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives")
        .arg(format!("--setup-hook=sync-in {} /var/cache/apt/archives", quote(debs)))
        // The kernel's package would build an initial RAM disk of its own.
        .arg("--essential-hook=mkdir -p \"$1\"/etc/kernel-img.d && echo 'do_initrd = no' > \"$1\"/etc/kernel-img.conf")
        .arg(format!("--customize-hook=sync-out /var/cache/apt/archives {}", quote(debs)))
        .arg("--customize-hook=mkdir \"$1\"/rekindle-build")
        .arg(format!("--customize-hook=sync-in {} /rekindle-build", quote(inputs)))
        .arg("--customize-hook=chroot \"$1\" sh /rekindle-build/customize.sh")
        .arg(format!("--customize-hook=download /rekindle-build/{INITRD} {}", quote(&work.join(INITRD))))
        .arg(format!("--customize-hook=download /rekindle-build/vmlinuz {}", quote(&work.join("vmlinuz"))))
        .arg("--customize-hook=rm -rf \"$1\"/rekindle-build")
        .arg(RELEASE)
        .arg(tar)
        .arg(format!("deb {main} {RELEASE} main"))
        .arg(format!("deb {main} {RELEASE}-updates main"))
        .arg(format!("deb {security} {RELEASE}-security main"));
    command
}

/// Finds the compressed ELF file inside a kernel image and unpacks it.
fn unpack_kernel(packed: &Path, target: &Path) -> Result<()> {
    const FORMATS: [(&[u8], &str); 3] =
        [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b\x08", "gzip")];
    let bytes = fs::read(packed).context("the tree has no kernel")?;
    for (magic, tool) in FORMATS {
        for at in (0..bytes.len().saturating_sub(magic.len())).filter(|at| bytes[*at..].starts_with(magic)) {
            let rest = target.with_extension("packed");
            fs::write(&rest, &bytes[at..])?;
            // What follows the compressed part is reported as an error; the result decides.
            let _ = bound_command(tool)
                .args(["--decompress", "--stdout"])
                .stdin(File::open(&rest)?)
                .stdout(File::create(target)?)
                .stderr(Stdio::null())
                .status();
            fs::remove_file(&rest)?;
            if starts_with(target, b"\x7fELF") {
                return Ok(());
            }
        }
    }
    (|| bail!("no compressed kernel was found in {}", packed.display()))()
        .hint("run `cargo xtask setup` for missing tools; if its compression is new, see FORMATS in xtask/src/lab/image.rs")
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.starts_with(magic))
}

fn scripts() -> PathBuf {
    repo::root().join("xtask/lab")
}
