//! A real guest: the built kernel, the `minimal` image, and the agent in it.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use rekindle::agent::AgentClient;
use rekindle::engine::{BoxFuture, ByteStream};

/// Greets the agent at the other end.
pub fn hello(stream: Box<dyn ByteStream>) -> BoxFuture<'static, Result<(), String>> {
    Box::pin(async move {
        let client = AgentClient::connect(stream, Duration::from_secs(90)).await;
        client.map(|_| ()).map_err(|error| format!("{error:?}"))
    })
}

/// Kernel and image as `cargo xtask` leaves them.
pub fn artifacts() -> Result<(PathBuf, PathBuf), String> {
    let cache = env::var_os("REKINDLE_CACHE")
        .map(PathBuf::from)
        .or_else(|| env::var_os("XDG_CACHE_HOME").map(|dir| PathBuf::from(dir).join("rekindle")))
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/rekindle")))
        .ok_or("no cache directory")?;
    let kernel = cache.join("kernel/current/vmlinux");
    let image = cache.join("images/minimal/current/image.erofs");
    for path in [&kernel, &image] {
        if !path.exists() {
            return Err(format!("{} is not built", path.display()));
        }
    }
    Ok((kernel, image))
}
