//! What a server holds when nothing is under way, so that it can be compared with what it held before.

use std::time::Duration;

use rekindle_e2e::server::{Held, Server};

/// What an allocator may keep to itself, and no leak of a sandbox's worth may hide in.
const RSS_KIB: u64 = 24 * 1024;

/// What is held once the pool is full again and nobody is connected.
pub async fn settled(server: &Server, parked: u32, prespawned: u32) -> Held {
    server.filled(parked, prespawned).await;
    // A connection takes a moment to be forgotten, and so does a file.
    let mut last = server.held();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.held();
        if (now.descriptors, now.children, now.files) == (last.descriptors, last.children, last.files) {
            return now;
        }
        last = now;
    }
}

/// Asserts that there is no more than before.
pub fn assert_same(before: Held, after: Held) {
    assert_eq!(after.descriptors, before.descriptors, "descriptors: {before:?}, {after:?}");
    assert_eq!(after.children, before.children, "processes: {before:?}, {after:?}");
    assert_eq!(after.files, before.files, "files: {before:?}, {after:?}");
    assert!(after.rss_kib <= before.rss_kib + RSS_KIB, "memory: {before:?}, {after:?}");
}
