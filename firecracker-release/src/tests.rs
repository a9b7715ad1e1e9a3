//! The address, and what is kept of an archive.

use super::*;

fn release() -> Release {
    Release { base: RELEASES.to_owned(), machine: "x86_64".to_owned(), sha256: String::new() }
}

fn archive(dir: &Path, files: &[&str]) -> PathBuf {
    let folder = dir.join(format!("release-v{VERSION}-x86_64"));
    for file in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, *file).expect("written");
    }
    let archive = dir.join("release.tgz");
    let mut tar = Command::new("tar");
    let made = tar.arg("-czf").arg(&archive).arg("-C").arg(dir).arg(folder.file_name().expect("a name"));
    assert!(made.status().expect("started").success());
    archive
}

#[test]
fn the_pinned_release_has_the_official_address_and_a_mirror_its_own() {
    assert!(release().url().ends_with("/releases/download/v1.16.1/firecracker-v1.16.1-x86_64.tgz"));
    let pinned = Release::pinned(Some("http://near.test/fc/".into())).expect("a release for this machine");
    assert!(pinned.url().starts_with("http://near.test/fc/v1.16.1/"), "{}", pinned.url());
    assert_eq!(Release::pinned(Some(String::new())).expect("a release").base, RELEASES);
}

#[test]
fn only_the_two_programs_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let files =
        ["firecracker-v1.16.1-x86_64", "jailer-v1.16.1-x86_64", "jailer-v1.16.1-x86_64.debug", "doc/LICENSE"];
    let into = dir.path().join("into");
    fs::create_dir(&into).expect("made");
    release().unpack(&archive(dir.path(), &files), &into).expect("unpacked");
    let mut names: Vec<_> =
        fs::read_dir(&into).expect("read").map(|entry| entry.expect("one").file_name()).collect();
    names.sort();
    assert_eq!(names, PROGRAMS);
}

#[test]
fn an_archive_that_is_no_release_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let into = dir.path().join("into");
    fs::create_dir(&into).expect("made");
    let error =
        release().unpack(&archive(dir.path(), &["firecracker-v1.16.1-x86_64"]), &into).expect_err("no");
    assert_eq!(error.to_string(), "the archive holds no jailer");
    let junk = dir.path().join("junk");
    fs::write(&junk, "words").expect("written");
    let error = release().unpack(&junk, &into).expect_err("no");
    assert!(error.to_string().starts_with("tar cannot unpack"), "{error}");
}
