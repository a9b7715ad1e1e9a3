//! `filesystem.Filesystem`: looks at files and directories, makes, moves and removes them, and tells what changes.

mod list;
mod messages;
mod verbs;
mod watch;

use axum::body::Body;
use axum::http::Response;

use super::rpc::Rpc;

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stat,
    MakeDir,
    Move,
    ListDir,
    Remove,
    WatchDir,
    CreateWatcher,
    GetWatcherEvents,
    RemoveWatcher,
}

/// A method, and the name that audit log and metrics have for it.
pub(super) fn method(name: &str) -> Option<(Method, &'static str)> {
    Some(match name {
        "Stat" => (Method::Stat, "Filesystem/Stat"),
        "MakeDir" => (Method::MakeDir, "Filesystem/MakeDir"),
        "Move" => (Method::Move, "Filesystem/Move"),
        "ListDir" => (Method::ListDir, "Filesystem/ListDir"),
        "Remove" => (Method::Remove, "Filesystem/Remove"),
        "WatchDir" => (Method::WatchDir, "Filesystem/WatchDir"),
        "CreateWatcher" => (Method::CreateWatcher, "Filesystem/CreateWatcher"),
        "GetWatcherEvents" => (Method::GetWatcherEvents, "Filesystem/GetWatcherEvents"),
        "RemoveWatcher" => (Method::RemoveWatcher, "Filesystem/RemoveWatcher"),
        _ => return None,
    })
}

pub(super) async fn answer(method: Method, rpc: Rpc<'_>) -> Response<Body> {
    match method {
        Method::Stat => rpc.unary(verbs::stat).await,
        Method::MakeDir => rpc.unary(verbs::make_dir).await,
        Method::Move => rpc.unary(verbs::rename).await,
        Method::ListDir => rpc.unary(list::list).await,
        Method::Remove => rpc.unary(verbs::remove).await,
        Method::WatchDir => watch::watch(rpc).await,
        Method::CreateWatcher => rpc.unary(watch::create).await,
        Method::GetWatcherEvents => rpc.unary(watch::events).await,
        Method::RemoveWatcher => rpc.unary(watch::remove).await,
    }
}
