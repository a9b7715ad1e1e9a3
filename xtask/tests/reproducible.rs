//! Two builds of an image on the same inputs give the same bytes.

use std::path::PathBuf;
use std::process::Command;

use rekindle_test_support::skip;

#[test]
fn the_minimal_image_is_built_to_the_same_bytes_twice() {
    // Set by `cargo xtask test`; on its own this test would build for minutes.
    let Some(cache) = std::env::var_os("REKINDLE_CACHE").map(PathBuf::from) else {
        skip!("REKINDLE_CACHE is not set: run `cargo xtask test`");
    };
    if !cache.join("images/minimal/current/manifest.json").is_file() {
        skip!("the image `minimal` is not built: run `cargo xtask rootfs minimal`");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["rootfs", "minimal", "--check-reproducible"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("minimal is reproducible: "), "{out}\n{err}");
}
