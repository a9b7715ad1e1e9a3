//! The download, against releases served on a loopback port.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use super::*;
use crate::hash;
use crate::hint::render;

/// An archive laid out like a release, with two small programs in it.
fn archive(dir: &Path) -> Vec<u8> {
    let folder = dir.join(format!("release-v{VERSION}-x86_64"));
    fs::create_dir(&folder).unwrap();
    for name in ["firecracker", "jailer"] {
        let program = folder.join(format!("{name}-v{VERSION}-x86_64"));
        fs::write(&program, format!("#!/bin/sh\necho {name} v{VERSION}\n")).unwrap();
        fs::write(folder.join(format!("{name}-v{VERSION}-x86_64.debug")), "symbols").unwrap();
        let status = Command::new("chmod").arg("755").arg(&program).status().unwrap();
        assert!(status.success());
    }
    fs::write(folder.join("LICENSE"), "words").unwrap();
    let archive = dir.join("release.tgz");
    let status = Command::new("tar")
        .arg("-czf")
        .arg(&archive)
        .arg("-C")
        .arg(dir)
        .arg(folder.file_name().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    fs::read(archive).unwrap()
}

/// Serves `body` under the pinned release's address, and claims that it has `length` bytes.
fn serve(body: Vec<u8>, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/mirror/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut request = String::new();
            let _ = reader.read_line(&mut request);
            let mut header = String::new();
            while reader.read_line(&mut header).is_ok_and(|count| count > 2) {
                header.clear();
            }
            let wanted = format!("GET /mirror/v{VERSION}/firecracker-v{VERSION}-x86_64.tgz HTTP/1.1");
            let status = if request.trim_end() == wanted { "200 OK" } else { "404 Not Found" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    base
}

struct Bench {
    _dir: tempfile::TempDir,
    cache: Cache,
    archive: Vec<u8>,
    sha256: String,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let archive = archive(dir.path());
        let sha256 = hash::file(&dir.path().join("release.tgz")).unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        Self { _dir: dir, cache, archive, sha256 }
    }

    fn release(&self, base: String) -> Release {
        Release { base, machine: "x86_64".to_owned(), sha256: self.sha256.clone() }
    }

    /// A download that must fail; what a person reads about it. Nothing of it is left.
    fn refused(&self, release: &Release) -> String {
        let error = download(&self.cache, release).unwrap_err();
        for folder in ["downloads", "tmp"] {
            let left = fs::read_dir(self.cache.root().join(folder)).unwrap().count();
            assert_eq!(left, 0, "{folder} is not empty");
        }
        assert!(self.cache.find("firecracker", VERSION).is_none());
        format!("{}{}", render(&error), regret(&error))
    }
}

#[test]
fn a_release_with_the_right_hash_is_unpacked_to_its_two_programs() {
    let bench = Bench::new();
    let release = bench.release(serve(bench.archive.clone(), bench.archive.len()));
    let path = download(&bench.cache, &release).unwrap();
    assert_eq!(first_line(&mut Command::new(&path)).unwrap(), format!("firecracker v{VERSION}"));
    let mut names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["firecracker", "jailer", MANIFEST]);
}

#[test]
fn a_release_with_another_hash_is_refused() {
    let bench = Bench::new();
    let mut release = bench.release(serve(bench.archive.clone(), bench.archive.len()));
    release.sha256 = "0".repeat(64);
    let text = bench.refused(&release);
    assert!(text.contains(&bench.sha256) && text.contains("expected 000"), "{text}");
    assert!(text.contains("do not use it"), "{text}");
}

#[test]
fn a_release_that_is_cut_short_is_refused() {
    let bench = Bench::new();
    let half = bench.archive[..bench.archive.len() / 2].to_vec();
    let text = bench.refused(&bench.release(serve(half, bench.archive.len())));
    assert!(text.contains("curl: (18)"), "{text}");
}

#[test]
fn a_release_that_is_not_there_or_cannot_be_reached_is_said_in_one_line() {
    let bench = Bench::new();
    let mut release = bench.release(serve(Vec::new(), 0));
    release.machine = "pdp11".to_owned();
    let text = bench.refused(&release);
    assert!(text.contains("cannot be downloaded: curl: (22)"), "{text}");
    let text = bench.refused(&bench.release("http://127.0.0.1:9".to_owned()));
    assert!(text.contains("cannot be downloaded: curl: (7)"), "{text}");
}
