//! A release from a file and from a server; what is not one leaves nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::*;

struct Bench {
    dir: tempfile::TempDir,
    archive: PathBuf,
    release: Release,
}

impl Bench {
    /// An archive laid out like a release, with two small programs in it.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("release");
        fs::create_dir(&folder).expect("made");
        for name in ["firecracker", "jailer"] {
            fs::write(folder.join(format!("{name}-v{VERSION}-x86_64")), name).expect("written");
        }
        let archive = dir.path().join("release.tgz");
        let mut tar = Command::new("tar");
        let made = tar.arg("-czf").arg(&archive).arg("-C").arg(dir.path()).arg("release").status();
        assert!(made.expect("started").success());
        let sha256 = Sha256::digest(fs::read(&archive).expect("read"));
        let release = Release {
            base: "http://127.0.0.1:9".into(),
            machine: "x86_64".into(),
            sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        Self { dir, archive, release }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn install(&self, release: &Release, from: Option<&Path>) -> anyhow::Result<()> {
        install(release, from, &self.data().join("firecracker"))
    }

    /// An installation that must fail: what a person reads, and what it leaves.
    fn refused(&self, release: &Release, from: Option<&Path>) -> (String, Vec<String>) {
        let error = self.install(release, from).expect_err("refused");
        (format!("{error:#}"), self.left())
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data()).expect("read");
        entries.map(|entry| entry.expect("one").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Serves `body`, and claims that it has `length` bytes.
fn serve(body: Vec<u8>, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    base
}

#[test]
fn a_release_from_a_file_is_put_in_its_place_and_recognised_there() {
    let bench = Bench::new();
    let place = bench.data().join("firecracker");
    assert!(!is_there(&place, &bench.release));
    bench.install(&bench.release, Some(&bench.archive)).expect("installed");
    assert!(is_there(&place, &bench.release));
    assert_eq!(fs::read_to_string(place.join("jailer")).expect("read"), "jailer");
    // Another release takes its place.
    let newer = Release { sha256: "0".repeat(64), ..bench.release.clone() };
    assert!(!is_there(&place, &newer));
    bench.install(&bench.release, Some(&bench.archive)).expect("installed again");
    assert_eq!(bench.left(), ["firecracker"]);
}

#[test]
fn a_release_from_a_server_is_fetched_and_one_that_is_cut_short_is_not_kept() {
    let bench = Bench::new();
    let body = fs::read(&bench.archive).expect("read");
    let half = body[..body.len() / 2].to_vec();
    let cut = Release { base: serve(half, body.len()), ..bench.release.clone() };
    let (error, left) = bench.refused(&cut, None);
    assert!(error.contains("curl: (18)") && error.contains("hint: "), "{error}");
    assert_eq!(left, [""; 0]);
    let whole = Release { base: serve(body.clone(), body.len()), ..bench.release.clone() };
    bench.install(&whole, None).expect("installed");
    assert_eq!(bench.left(), ["firecracker"]);
}

#[test]
fn an_archive_with_another_hash_is_refused_and_what_was_there_stays() {
    let bench = Bench::new();
    bench.install(&bench.release, Some(&bench.archive)).expect("installed");
    let other = Release { sha256: "0".repeat(64), ..bench.release.clone() };
    let (error, left) = bench.refused(&other, Some(&bench.archive));
    assert!(error.contains(&bench.release.sha256) && error.contains("do not use it"), "{error}");
    assert_eq!(left, ["firecracker"]);
    assert!(is_there(&bench.data().join("firecracker"), &bench.release));
}

#[test]
fn a_host_without_a_network_is_told_how_to_do_it_by_hand() {
    let bench = Bench::new();
    let (error, _) = bench.refused(&bench.release, None);
    assert!(error.contains("rekindle setup --from FILE"), "{error}");
    // From where it is released, whatever mirror was asked.
    assert!(error.contains("curl: (7)") && error.contains(&format!("download {RELEASES}/")), "{error}");
}

#[test]
fn what_curl_says_for_every_try_is_told_once() {
    assert_eq!(last_words(b"curl: (6) no such host\ncurl: (6) no such host\n"), "curl: (6) no such host");
    assert_eq!(last_words(b""), "curl did not say why");
}
