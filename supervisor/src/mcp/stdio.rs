//! Over standard input and output, for a client that starts `rekindle mcp` itself. The end of the input, or a signal, is
//! the end of the session and of every sandbox that it made.

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use super::server::Mcp;

/// Longest line that is read; one that is longer is thrown away with a word in the log.
const MAX_LINE: usize = 16 << 20;

/// Why a session could not go on.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// What came first was no beginning of a session.
    #[error(
        "the client did not begin a session\nhint: `rekindle mcp` is started by an MCP client, such as `claude mcp add rekindle -- rekindle mcp`"
    )]
    Beginning(#[source] Box<ServerInitializeError>),
    /// The session's own task failed.
    #[error("the session broke off")]
    Broken(#[source] tokio::task::JoinError),
}

/// Serves one session, until its input ends or `shutdown` does.
///
/// # Errors
/// When it could not begin, or broke off. What it made is ended all the same.
pub async fn serve_stdio(
    mcp: Mcp,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StdioError> {
    let mcp = mcp.with_session();
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE);
    let serving = async {
        let running = match mcp.clone().serve(transport).await {
            Ok(running) => running,
            // A client that goes away before it has begun has asked for nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(StdioError::Beginning(Box::new(error))),
        };
        running.waiting().await.map(drop).map_err(StdioError::Broken)
    };
    let served = tokio::select! {
        served = serving => served,
        () = shutdown => Ok(()),
    };
    mcp.end_session().await;
    served
}
