//! The life of the packages on a fresh Debian 12: installed, used, upgraded, removed, purged.
//!
//! The empty tree and the packages that ours ask for are kept in the cache. Each run unpacks it anew and enters
//! it with namespaces of its own and without a network, so that nothing of this host is seen, changed or needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use super::Dist;
use super::layout::output;
use crate::cache::{Built, Cache, MANIFEST};
use crate::hash::Key;
use crate::job::{Job, bound_command};
use crate::rootfs::{EPOCH, Mirrors, debootstrap, mirrors};
use crate::{repo, setup};

const RELEASE: &str = "bookworm";
const TAR: &str = "tree.tar";
/// Raised when the way of building changes.
const FORMAT: &str = "1";
/// What a deadline is for: nothing here takes a fraction of it.
const DEADLINE: &str = "900";
/// Within this a program prints what it was run for after the install, as SPECIFICATION.md promises: the one time that
/// is asserted.
const PROMISED: Duration = Duration::from_secs(60);
/// Where the packages are in the tree.
const PACKAGES: &str = "packages";

/// Enters a tree: `$1` is the tree, `$2` a script. Its control groups are none of this host's.
const ENTER: &str = r#"
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/sys/fs/cgroup"
mount --rbind /dev "$1/dev"
exec timeout --kill-after=10 "$3" chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive REKINDLE_ENGINE=qemu sh -ec "$2"
"#;

/// Why packages cannot be installed aside on this machine.
pub fn obstacle() -> Option<&'static str> {
    if !geteuid().is_root() {
        return Some("entering a tree of its own needs root");
    }
    let mut unshare = Command::new("unshare");
    let can = unshare.args(["--mount", "--pid", "--fork", "--net", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return Some("this machine does not allow namespaces");
    }
    (!setup::on_path("mmdebstrap")).then_some("there is no mmdebstrap; `cargo xtask setup` installs it")
}

/// Goes through all of it.
pub fn check(cache: &Cache, dist: &Dist) -> Result<()> {
    if let Some(reason) = obstacle() {
        bail!("the packages cannot be tried here: {reason}");
    }
    let empty = empty_tree(cache)?;
    let work = cache.scratch("install-test")?;
    let mut job = Job::start(cache, "install test")?;
    job.step("unpacking an empty Debian 12")?;
    let room = Room { tree: work.path().join("tree") };
    fs::create_dir(&room.tree)?;
    job.run(
        bound_command("tar")
            .args(["--extract", "--numeric-owner", "--xattrs", "--file"])
            .arg(empty.dir.join(TAR))
            .arg("--directory")
            .arg(&room.tree),
    )?;
    let packages = room.tree.join(PACKAGES);
    fs::create_dir(&packages)?;
    fs::copy(&dist.package, packages.join("rekindle.deb"))?;
    fs::copy(&dist.python_node, packages.join("python-node.deb"))?;
    for name in ["rekindle", "python-node"] {
        let deb = packages.join(format!("{name}.deb"));
        newer(&deb, work.path(), &packages.join(format!("newer-{name}.deb")))?;
    }

    job.step("installing the package, and nothing that it only recommends")?;
    room.run("apt-get install --yes --no-install-recommends ./packages/rekindle.deb")?;
    room.run(&format!("test \"$(rekindle --version)\" = 'rekindle {}'", super::VERSION))?;
    let refused = room.refused("rekindle run --python 'print(6 * 7)'")?;
    ensure!(refused.contains("apt install qemu-system-x86"), "the hint does not say what to do:\n{refused}");
    no_cargo(&refused)?;

    job.step("installing what it recommends")?;
    room.run(&format!(
        "apt-get install --yes --no-install-recommends {}",
        relations("Recommends")?.join(" ")
    ))?;

    job.step("running a program")?;
    let started = Instant::now();
    let said = room.run("rekindle run --python 'print(6 * 7)'")?;
    let took = started.elapsed();
    ensure!(said.stdout == "42\n", "it printed {:?}", said.stdout);
    ensure!(said.stderr.contains("template minimal: booting"), "nothing said what it did:\n{}", said.stderr);
    ensure!(took <= PROMISED, "42 came {took:.1?} after the install, and {PROMISED:?} are promised");
    eprintln!("install test: 42 after {took:.1?}, with the template built on the way");
    for command in ["doctor", "template ls", "config check", "run --help"] {
        let said = room.run(&format!("rekindle {command}"))?;
        no_cargo(&(said.stdout + &said.stderr))?;
    }
    room.run("bash -n /usr/share/bash-completion/completions/rekindle; test -s /usr/share/man/man1/rekindle-run.1.gz")?;

    job.step("running a program as an ordinary user")?;
    let said = room.run(
        "mkdir /home/someone; chown 1000:1000 /home/someone; cd /home/someone
         setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/someone \\
             rekindle run --node 'console.log(6 * 7)'
         rm -r /home/someone",
    )?;
    ensure!(said.stdout == "42\n", "it printed {:?}", said.stdout);

    job.step("running a program with what the container of packaging/ may do")?;
    let said =
        room.run(&format!("setpriv --bounding-set={CONTAINER} rekindle run --python 'print(6 * 7)'"))?;
    ensure!(said.stdout == "42\n", "it printed {:?}", said.stdout);

    job.step("serving with the configuration of the package")?;
    room.run(SERVE)?;

    job.step("adding the large image, a recipe and tokens")?;
    room.run(
        "apt-get install --yes ./packages/python-node.deb
         rekindle config check | grep 'sandbox.default_template *\"python-node\"'
         apt-get purge --yes rekindle-python-node
         rekindle config check | grep 'sandbox.default_template *\"minimal\"'
         apt-get install --yes ./packages/python-node.deb
         sed 's/^description.*/description = \"of the operator\"/' /usr/share/rekindle/templates/minimal.toml \\
             > /etc/rekindle/templates/mine.toml
         rekindle template ls | grep 'mine .*of the operator'
         rekindle token create --file /etc/rekindle/tokens.toml --tenant acme --scope exec
         echo '[sandbox]' >> /etc/rekindle/rekindle.toml; echo 'ttl_s = 77' >> /etc/rekindle/rekindle.toml
         test -s /var/lib/rekindle/usage.jsonl",
    )?;

    job.step("upgrading")?;
    let before = room.run(KEPT)?.stdout;
    room.run(
        "apt-get install --yes ./packages/newer-rekindle.deb ./packages/newer-python-node.deb
         dpkg-query --show rekindle rekindle-python-node | grep -c newer | grep -x 2",
    )?;
    ensure!(room.run(KEPT)?.stdout == before, "the upgrade changed what is not its own:\n{before}");
    let said = room.run(
        "rekindle config check | grep 'ttl_s *77'
         rekindle run --template minimal --python 'print(6 * 7)'",
    )?;
    ensure!(said.stdout.ends_with("42\n"), "it printed {:?}", said.stdout);
    ensure!(!said.stderr.contains("booting"), "the template was built again:\n{}", said.stderr);

    job.step("removing")?;
    room.run(
        "apt-get remove --yes rekindle rekindle-python-node
         test ! -e /usr/bin/rekindle; test ! -e /usr/share/rekindle",
    )?;
    ensure!(room.run(KEPT)?.stdout == before, "the removal changed what it should leave:\n{before}");

    job.step("purging")?;
    let left = room.run(
        "mkdir -p /sys/fs/cgroup/rekindle/vm-1
         apt-get purge --yes rekindle rekindle-python-node >&2
         find / -xdev -name '*rekindle*' -not -path '/packages/*'; find /sys/fs/cgroup -name '*rekindle*'",
    )?;
    ensure!(left.stdout.is_empty(), "these were left:\n{}", left.stdout);
    job.finish("installed, used, upgraded, removed, purged");
    Ok(())
}

/// Docker's own capabilities, and the one that compose.yaml adds.
const CONTAINER: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,\
    +net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap,+sys_ptrace";

/// Starts the service, uses it and stops it, as its unit would.
const SERVE: &str = r"
rekindle serve > /tmp/serve.out 2> /tmp/serve.err &
service=$!
until grep -q '^serving on unix:/run/rekindle/rekindle.sock' /tmp/serve.out; do
    kill -0 $service || { cat /tmp/serve.err >&2; exit 1; }
    sleep 0.2
done
id=$(rekindle create --ttl 600)
test $(rekindle exec $id --python 'print(6 * 7)') = 42
rekindle rm $id
kill $service
wait $service
rm /tmp/serve.*
";

/// What is neither the package's nor a cache, as sums.
const KEPT: &str = "find /etc/rekindle /var/lib/rekindle -type f -not -path '*/cache/*' -not -path '*/run/*' -exec md5sum {} + | sort -k 2";

struct Said {
    stdout: String,
    stderr: String,
}

/// A tree that scripts run in.
struct Room {
    tree: PathBuf,
}

impl Room {
    /// Runs a script that must succeed.
    fn run(&self, script: &str) -> Result<Said> {
        let (success, said) = self.script(script)?;
        ensure!(success, "this failed:\n{script}\n{}{}", said.stdout, said.stderr);
        Ok(said)
    }

    /// Runs a script that must fail, and what it said about that.
    fn refused(&self, script: &str) -> Result<String> {
        let (success, said) = self.script(script)?;
        ensure!(!success, "this did not fail:\n{script}\n{}{}", said.stdout, said.stderr);
        Ok(said.stderr)
    }

    fn script(&self, script: &str) -> Result<(bool, Said)> {
        let output = bound_command("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "--"])
            .args(["sh", "-c", ENTER, "sh"])
            .arg(&self.tree)
            .args([script, DEADLINE])
            .output()
            .context("cannot enter the tree")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.success(), Said { stdout: text(&output.stdout), stderr: text(&output.stderr) }))
    }
}

fn no_cargo(said: &str) -> Result<()> {
    ensure!(!said.contains("cargo"), "an installed program speaks of cargo:\n{said}");
    Ok(())
}

/// The same package under a higher version.
fn newer(deb: &Path, work: &Path, to: &Path) -> Result<()> {
    let dir = work.join("newer");
    output(bound_command("dpkg-deb").arg("--raw-extract").arg(deb).arg(&dir))?;
    let control = dir.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version = format!("Version: {}", super::VERSION);
    ensure!(text.contains(&version), "the package has another version");
    let text = text.replace(&version, &format!("{version}+newer"));
    // What the large image asks for.
    let exactly = |suffix: &str| format!("(= {}{suffix})", super::VERSION);
    fs::write(&control, text.replace(&exactly(""), &exactly("+newer")))?;
    output(
        bound_command("dpkg-deb").args(["--root-owner-group", "-Zgzip", "-z1", "--build"]).arg(&dir).arg(to),
    )?;
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// The packages a field of our control file names.
pub(super) fn relations(field: &str) -> Result<Vec<String>> {
    let control = fs::read_to_string(repo::root().join("packaging/deb/rekindle/control"))?;
    let line = control.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let line = line.with_context(|| format!("the control file has no {field}"))?;
    let name = |relation: &str| relation.split_ascii_whitespace().next().map(str::to_owned);
    Ok(line.split(',').filter_map(name).collect())
}

/// Debian 12 with apt and nothing else, and aside what our package will ask for.
fn empty_tree(cache: &Cache) -> Result<Built> {
    let wanted = [relations("Depends")?, relations("Recommends")?].concat().join(" ");
    let key = Key::default()
        .add("format", FORMAT)
        .add("release", RELEASE)
        .add("wanted", &wanted)
        .add("mmdebstrap", setup::installed_version("mmdebstrap")?.unwrap_or_default())
        .finish();
    cache.build("install-tree", &key, |work| {
        let mut job = Job::start(cache, "empty tree")?;
        job.step(&format!("installing Debian {RELEASE}, and fetching {wanted}"))?;
        let Mirrors { main, security } = mirrors();
        let mut command = debootstrap();
        command.env("TMPDIR", work).env("SOURCE_DATE_EPOCH", EPOCH).env("LC_ALL", "C.UTF-8");
        command
            .args(["--variant=apt", "--skip=cleanup/apt", "--dpkgopt=force-unsafe-io"])
            .args(["--aptopt=Acquire::Retries \"2\"", "--aptopt=Acquire::http::Timeout \"20\""])
            .arg("--aptopt=Acquire::Languages \"none\"")
            .arg(format!(
                "--customize-hook=chroot \"$1\" apt-get install --yes --download-only --no-install-recommends {wanted}"
            ))
            .args([RELEASE.as_ref(), work.join(TAR).as_os_str()])
            .arg(format!("deb {main} {RELEASE} main"))
            .arg(format!("deb {main} {RELEASE}-updates main"))
            .arg(format!("deb {security} {RELEASE}-security main"));
        job.run(&mut command)?;
        fs::write(work.join(MANIFEST), format!("{{ \"key\": \"{key}\" }}\n"))?;
        job.finish("built");
        Ok(())
    })
}
