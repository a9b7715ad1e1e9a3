//! The template `python-node`, as its recipe has it: for what the small one lacks. Its snapshot is kept apart from the
//! laboratory's, because every test has a copy of that one.

use std::path::PathBuf;

use rekindle::store::Store;
use rekindle_e2e::server::Server;
use rekindle_e2e::{Lab, Unavailable};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Its name.
pub const LARGE: &str = "python-node";
const RECIPE: &str = include_str!("../../../../snapshots/python-node.toml");

/// A data directory with its snapshot and nothing else.
///
/// # Errors
/// Says what this machine lacks.
///
/// # Panics
/// When everything is there and the snapshot still cannot be built.
pub async fn data(lab: &Lab) -> Result<TempDir, Unavailable> {
    static BUILT: OnceCell<Result<PathBuf, Unavailable>> = OnceCell::const_new();
    let build = || async {
        if rekindle_test_support::in_lab() {
            return Err("its machines are too large for the lab".to_owned());
        }
        let source = lab.source_of(LARGE, RECIPE)?;
        let data = lab.empty_data().keep();
        let store = Store::open(&data).expect("a store");
        source.build(&lab.host, &store, &|_| {}).await.expect("the template is built");
        Ok(data)
    };
    BUILT.get_or_init(build).await.as_ref().map(|data| lab.copy_of(data)).map_err(Clone::clone)
}

/// A server whose sandboxes are of it, with these settings besides.
pub async fn server(data: &TempDir, settings: &[&str]) -> Server {
    let template = format!("sandbox.default_template={LARGE}");
    Server::start(data.path(), &[&[template.as_str()], settings].concat()).await
}
