//! The server of the protocol: who asks, what tools there are, and which one is called. The same over both transports.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use rekindle_api::client::{Client, Connection};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};

use super::facts::{Defaults, Facts};
use super::session::Session;
use super::{origin, refusal, tools};

/// Whose rights a call has on the server.
#[derive(Debug, Clone)]
pub enum Access {
    /// Those of this process: its token, or those of who may use the socket.
    Own(Option<String>),
    /// Those of the token that comes with the call.
    Caller {
        /// What a call without a token gets: this process's rights, with its token; `None` refuses it.
        otherwise: Option<Option<String>>,
    },
}

/// The server.
#[derive(Debug, Clone)]
pub struct Mcp {
    connection: Connection,
    access: Access,
    pub(super) defaults: Arc<Defaults>,
    /// The session whose end is the end of what it made; none over HTTP, where nobody tells that a caller is gone.
    pub(super) session: Option<Arc<Session>>,
}

impl Mcp {
    /// A server on this connection.
    #[must_use]
    pub fn new(connection: Connection, access: Access, defaults: Defaults) -> Self {
        Self { connection, access, defaults: Arc::new(defaults), session: None }
    }

    /// The same, with a session of its own.
    pub(super) fn with_session(mut self) -> Self {
        self.session = Some(Arc::default());
        self
    }

    /// Ends what the session has made.
    pub(super) async fn end_session(&self) {
        if let Some(session) = &self.session {
            session.end().await;
        }
    }

    /// Whether a request without a token may come in.
    pub(super) fn needs_token(&self) -> bool {
        matches!(self.access, Access::Caller { otherwise: None })
    }

    /// A client with the rights of who asks.
    fn client(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let own = match &self.access {
            Access::Own(token) => Some(token.clone()),
            Access::Caller { otherwise } => match context.extensions.get::<Parts>().map(bearer) {
                Some(Ok(Some(token))) => Some(Some(token)),
                Some(Ok(None)) => otherwise.clone(),
                Some(Err(())) | None => None,
            },
        };
        let Some(token) = own else {
            return Err(ErrorData::invalid_request("a bearer token is needed", None));
        };
        let head = context.extensions.get::<Parts>();
        let connection = origin::part_of(&self.connection, &context.meta, head);
        let client = connection.and_then(|connection| connection.client(token.as_deref()));
        client.map_err(|error| ErrorData::invalid_request(error.to_string(), None))
    }

    fn unavailable(status: &rekindle_api::Status) -> ErrorData {
        ErrorData::internal_error(refusal::describe(status), None)
    }
}

/// The token of a request, if it shows one; an error where it shows something else.
pub(super) fn bearer(parts: &Parts) -> Result<Option<String>, ()> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(());
    }
    let (scheme, token) = value.to_str().map_err(drop)?.split_once(' ').ok_or(())?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(());
    }
    Ok(Some(token.to_owned()))
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("rekindle", env!("CARGO_PKG_VERSION"));
        info.with_instructions(
            "Sandboxes to run code in, each a virtual machine of its own. Make one with sandbox_create, use its id in \
             every other call, and end it with sandbox_end when you need it no more.",
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut client = self.client(&context)?;
        let facts = Facts::ask(&mut client).await.map_err(|status| Self::unavailable(&status))?;
        Ok(ListToolsResult::with_all_items(tools::list(self, &facts)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.client(&context)?;
        tokio::select! {
            result = tools::call(self, client, &request.name, request.arguments) => result.map(Into::into),
            // Dropping the call kills what it runs.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who is let in.

    use axum::http::Request;

    use super::*;

    fn token(values: &[&str]) -> Result<Option<String>, ()> {
        let mut request = Request::builder();
        for value in values {
            request = request.header(AUTHORIZATION, *value);
        }
        bearer(&request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn one_bearer_token_is_taken_and_nothing_that_looks_like_one() {
        assert_eq!(token(&["Bearer abc"]), Ok(Some("abc".into())));
        assert_eq!(token(&["bearer  abc "]), Ok(Some("abc".into())));
        assert_eq!(token(&[]), Ok(None));
        for wrong in [&["Basic abc"][..], &["Bearer"], &["Bearer "], &["Bearer a", "Bearer b"], &["abc"]] {
            assert_eq!(token(wrong), Err(()), "{wrong:?}");
        }
    }
}
