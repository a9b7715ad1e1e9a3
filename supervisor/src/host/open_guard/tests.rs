//! The guard on a real child: what is granted arrives read-only, the rest is refused.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{OpenGrant, may_read_others};
use crate::host::process::{ProcessSpec, spawn};

async fn shell(script: &str, grants: Vec<OpenGrant>) -> String {
    let process = spawn(ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        open_guard: Some(grants),
        ..ProcessSpec::default()
    })
    .await
    .expect("the shell starts");
    process.wait().await;
    process.output().text()
}

fn grant(path: &Path) -> OpenGrant {
    OpenGrant {
        path: CString::new(path.as_os_str().as_bytes()).expect("a path without NUL"),
        descriptor: File::open(path).expect("readable").into(),
    }
}

#[tokio::test]
async fn a_granted_file_opened_for_writing_arrives_read_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("memory");
    fs::write(&file, "original").expect("written");
    let script = format!("exec 7<>'{0}'; cat <&7; echo changed >&7 && echo WRITTEN", file.display());
    let output = shell(&script, vec![grant(&file)]).await;
    assert!(output.starts_with("original"), "reading works: {output}");
    assert!(!output.contains("WRITTEN"), "writing does not: {output}");
    assert_eq!(fs::read_to_string(&file).expect("readable"), "original");
}

#[tokio::test]
async fn a_file_without_a_grant_cannot_be_opened_for_writing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("other");
    fs::write(&file, "original").expect("written");
    let output = shell(&format!("cat '{0}'; echo changed >> '{0}'", file.display()), vec![]).await;
    assert!(output.starts_with("original"), "{output}");
    assert!(output.contains("ermission denied"), "{output}");
    assert_eq!(fs::read_to_string(&file).expect("readable"), "original");
}

#[tokio::test]
async fn a_child_reaches_neither_the_hosts_network_nor_other_processes() {
    // Somebody listens, so that nothing but the guard refuses.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let process = spawn(ProcessSpec {
        program: PathBuf::from("/bin/bash"),
        args: vec!["-c".into(), format!("exec 7<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED").into()],
        open_guard: Some(vec![]),
        ..ProcessSpec::default()
    })
    .await
    .expect("the shell starts");
    process.wait().await;
    let output = process.output().text();
    assert!(output.contains("not permitted") && !output.contains("CONNECTED"), "{output}");
    let output = shell("unshare --user true && echo LEFT", vec![]).await;
    assert!(output.contains("not permitted") && !output.contains("LEFT"), "{output}");
}

#[tokio::test]
async fn a_child_leaves_nothing_behind_where_others_look() {
    let dir = tempfile::tempdir().expect("a directory");
    let [there, made] = ["there", "made"].map(|name| dir.path().join(name));
    std::fs::write(&there, "").expect("a file");
    let (there, made) = (there.display(), made.display());
    for command in [
        format!("mkdir {made}"),
        format!("mknod {made} p"),
        format!("ln -s {there} {made}"),
        format!("ln {there} {made}"),
        format!("mv -T {there} {made}"),
        format!("rm -f {there}"),
        "ipcmk --queue".to_owned(),
    ] {
        let output = shell(&format!("{command} && echo DONE"), vec![]).await;
        assert!(output.contains("not permitted") && !output.contains("DONE"), "{command}: {output}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn root_of_an_ordinary_container_may_not_guard_others() {
    let status = |set: &str| format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{set}\n");
    // Docker's own set, and the same with SYS_PTRACE.
    assert!(!may_read_others(&status("00000000a80425fb")));
    assert!(may_read_others(&status("00000000a80c25fb")));
    assert!(!may_read_others("Name:\tx\n"));
}
