//! What changes in a directory: in a stream, and to who asks.

use serde_json::{Value, json};

use crate::data_plane::{Ended, Sandbox};
use crate::place::Place;

impl Sandbox<'_> {
    async fn make(&self, path: &str) {
        self.done("filesystem.Filesystem/MakeDir", &json!({"path": path})).await;
    }

    async fn changes(&self, watcher: &Value) -> Vec<Value> {
        let told = self.done("filesystem.Filesystem/GetWatcherEvents", &json!({"watcherId": watcher})).await;
        told["events"].as_array().cloned().unwrap_or_default()
    }

    async fn watcher(&self, message: Value) -> Value {
        self.done("filesystem.Filesystem/CreateWatcher", &message).await["watcherId"].clone()
    }
}

#[tokio::test]
async fn who_asks_is_told_everything_since_it_last_asked() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    sandbox.make("dir").await;
    let plain = sandbox.watcher(json!({"path": "dir"})).await;
    let all = sandbox.watcher(json!({"path": "dir", "recursive": true, "includeEntry": true})).await;
    assert_eq!(sandbox.changes(&plain).await, Vec::<Value>::new());
    sandbox.make("dir/below").await;
    sandbox.make("dir/below/deep").await;
    assert_eq!(sandbox.changes(&plain).await, [json!({"name": "below", "type": "EVENT_TYPE_CREATE"})]);
    assert_eq!(sandbox.changes(&plain).await, Vec::<Value>::new(), "once");
    let told = sandbox.changes(&all).await;
    assert_eq!((&told[0]["name"], &told[1]["name"]), (&json!("below"), &json!("below/deep")), "{told:?}");
    assert_eq!(told[1]["entry"]["path"], "/home/user/dir/below/deep");
    assert_eq!(told[1]["entry"]["type"], "FILE_TYPE_DIRECTORY");
    sandbox.done("filesystem.Filesystem/Remove", &json!({"path": "dir/below/deep"})).await;
    assert_eq!(
        sandbox.changes(&all).await,
        [json!({"name": "below/deep", "type": "EVENT_TYPE_REMOVE"})],
        "what is gone is not described"
    );
    sandbox.done("filesystem.Filesystem/RemoveWatcher", &json!({"watcherId": all})).await;
    sandbox.refused("filesystem.Filesystem/GetWatcherEvents", &json!({"watcherId": all}), "not_found").await;
    sandbox.refused("filesystem.Filesystem/RemoveWatcher", &json!({"watcherId": "x"}), "not_found").await;
    let stranger = Sandbox::new(&place).await;
    stranger
        .refused("filesystem.Filesystem/GetWatcherEvents", &json!({"watcherId": plain}), "not_found")
        .await;
}

#[tokio::test]
async fn a_stream_says_that_it_has_begun_and_then_each_change() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    sandbox.make("dir").await;
    let mut events = sandbox.stream("filesystem.Filesystem/WatchDir", &json!({"path": "dir"}), &[]).await;
    assert_eq!(events.next().await, Ok(json!({"start": {}})));
    sandbox.make("dir/one").await;
    let change = json!({"filesystem": {"name": "one", "type": "EVENT_TYPE_CREATE"}});
    assert_eq!(events.next().await, Ok(change));
    assert_eq!(place.delete(&format!("/sandboxes/{}", sandbox.id)).await.status.as_u16(), 204);
    assert_eq!(events.next().await, Err(Ended::Cut), "a sandbox that is gone says no last word");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_in_words() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let message =
        sandbox.refused("filesystem.Filesystem/CreateWatcher", &json!({"path": "none"}), "not_found").await;
    assert!(message.contains("no such file"), "{message}");
    let headers = sandbox.headers(&[("content-type", "application/octet-stream")]);
    place.ask("POST", "/files?path=file", &headers, "x").await;
    let message = sandbox
        .refused("filesystem.Filesystem/CreateWatcher", &json!({"path": "file"}), "invalid_argument")
        .await;
    assert_eq!(message, "path is not a directory: /home/user/file");
    for _ in 0..16 {
        sandbox.watcher(json!({"path": "."})).await;
    }
    sandbox.refused("filesystem.Filesystem/CreateWatcher", &json!({"path": "."}), "resource_exhausted").await;
}
