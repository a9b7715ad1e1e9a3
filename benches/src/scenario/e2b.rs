//! What E2B's API costs: `commands.run("true")` as its SDKs ask for it over HTTP, beside the same program over gRPC, in
//! turns in one warm sandbox.
//!
//! Everything between the caller and the agent is real on both ways, tokens included. The SDK's own time is left out:
//! the request is what it sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rekindle::config::tokens::{self, NewToken, Quota, Scope, TokenFile};
use rekindle::door::{Authenticator, ConnectionLimits};
use rekindle::grpc::{HostFacts, Listeners, Server, ServerHandle, ServerOptions};
use rekindle::http::{Front, FrontOptions, HttpHandle, HttpListener, HttpServer};
use rekindle::pool::Watermarks;
use rekindle::service::{Ledger, Service, ServiceConfig};
use rekindle::telemetry::{Audit, Metrics};
use rekindle_api::client::{Client, Target};
use rekindle_api::v1;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Scenario, claim};
use crate::bed::Bed;
use crate::record::{Kind, Record, Sample};

/// Pairs taken in one round: each takes little time.
const PAIRS: usize = 5;
/// Pairs before the first one that counts.
const WARM_UP: usize = 20;
/// Streams at once on a connection.
const MAX_STREAMS: u32 = 128;
/// How the SDKs run a line of shell.
const TRUE: [&str; 4] = ["/bin/bash", "-l", "-c", "true"];

/// A service with both faces and one sandbox.
#[derive(Debug)]
pub struct Fronted {
    service: Service,
    grpc: Client,
    http: SendRequest<Full<Bytes>>,
    sandbox: String,
    access_token: String,
    servers: (ServerHandle, HttpHandle),
    serving: (JoinHandle<Result<(), rekindle::grpc::ServeError>>, JoinHandle<()>),
    _dir: TempDir,
}

impl Fronted {
    /// Starts the service and gets the sandbox used to it.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(bed: &Bed) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("tokens.toml");
        let token = NewToken {
            id: "bench".parse().map_err(anyhow::Error::msg)?,
            tenant: "bench".into(),
            scopes: vec![Scope::Create, Scope::Exec, Scope::Files],
            quota: Quota::default(),
            networks: Vec::new(),
            gateway: Vec::new(),
            root: true,
            expires: None,
        };
        let key = tokens::create(&file, &token)?.secret.reveal().to_owned();
        let pool = claim::pool(bed, Watermarks { low: 0, high: 0 });
        let config = ServiceConfig::new(bed.source.recipe.name.clone());
        let service = Service::new(config, pool, Ledger::in_memory(), Arc::new(Metrics::new()));
        let authenticator = Authenticator::new(Some(TokenFile::open(&file)?), true)?;
        let audit = Arc::new(Audit::to_log());

        let options = ServerOptions {
            connections: ConnectionLimits::default(),
            max_streams: MAX_STREAMS,
            facts: HostFacts::default(),
        };
        let server =
            Server::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), options).await?;
        let socket = dir.path().join("rekindle.sock");
        let listeners = Listeners::default().socket(&socket, 0o600, None).await?;
        let server_handle = server.handle();
        let serving = tokio::spawn(server.serve(listeners));

        let front = Front::new(service.clone(), authenticator, audit, FrontOptions::default());
        let http_server = HttpServer::new(front, ConnectionLimits::default(), MAX_STREAMS);
        let listener = HttpListener::bind(([127, 0, 0, 1], 0).into(), None).await?;
        let stream = TcpStream::connect(listener.address().context("no address")?).await?;
        let http_handle = http_server.handle();
        let http_serving = tokio::spawn(http_server.serve(listener));
        stream.set_nodelay(true)?;
        let (mut http, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);

        let made = json!({"templateID": bed.source.recipe.name.as_str(), "timeout": 3600, "secure": true});
        let request = post("/sandboxes").header("x-api-key", &key).header("content-type", "application/json");
        let answer = body(&mut http, request.body(Full::new(made.to_string().into()))?).await?;
        let made: Value = serde_json::from_slice(&answer).context("a sandbox that is not understood")?;
        let text = |name: &str| made[name].as_str().map(str::to_owned).with_context(|| format!("{made}"));
        let (sandbox, access_token) = (text("sandboxID")?, text("envdAccessToken")?);
        let grpc = Client::connect(&Target::Socket(socket), Some(&key)).await?;
        let mut fronted = Self {
            service,
            grpc,
            http,
            sandbox,
            access_token,
            servers: (server_handle, http_handle),
            serving: (serving, http_serving),
            _dir: dir,
        };
        for _ in 0..WARM_UP {
            fronted.pair().await?;
        }
        Ok(fronted)
    }

    /// Some pairs.
    ///
    /// # Errors
    /// When one fails.
    pub async fn sample(&mut self, record: &mut Record) -> Result<()> {
        for _ in 0..PAIRS {
            let (http, grpc) = self.pair().await?;
            let kind = |name: &str, what: &str| Kind::time(Scenario::E2bRoundtrip, name, what);
            record.add(kind("e2b_roundtrip", "`true` by the shell, over E2B's API"), Sample::of(http));
            record.add(kind("e2b_grpc", "the same over gRPC"), Sample::of(grpc));
        }
        Ok(())
    }

    async fn pair(&mut self) -> Result<(Duration, Duration)> {
        Ok((self.over_http().await?, self.over_grpc().await?))
    }

    async fn over_http(&mut self) -> Result<Duration> {
        let [program, arguments @ ..] = TRUE;
        let message = json!({"process": {"cmd": program, "args": arguments, "envs": {}}, "stdin": false});
        let message = message.to_string();
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len())?.to_be_bytes());
        framed.extend(message.into_bytes());
        let request = post("/process.Process/Start")
            .header("e2b-sandbox-id", &self.sandbox)
            .header("x-access-token", &self.access_token)
            .header("content-type", "application/connect+json")
            .header("connect-protocol-version", "1");
        let begun = Instant::now();
        let answer = body(&mut self.http, request.body(Full::new(framed.into()))?).await?;
        let whole = begun.elapsed();
        let answer = String::from_utf8_lossy(&answer);
        ensure!(answer.contains(r#""exited":true"#) && !answer.contains("error"), "{answer:?}");
        Ok(whole)
    }

    async fn over_grpc(&mut self) -> Result<Duration> {
        let command = v1::Command { argv: TRUE.map(str::to_owned).into() };
        let request = v1::ExecuteRequest {
            sandbox: self.sandbox.clone(),
            program: Some(v1::Program { program: Some(v1::program::Program::Command(command)) }),
            ..v1::ExecuteRequest::default()
        };
        let begun = Instant::now();
        let answer = self.grpc.sandboxes.execute(request).await?.into_inner();
        let whole = begun.elapsed();
        ensure!(answer.ended() == Some(v1::execution_outcome::Outcome::ExitCode(0)), "{answer:?}");
        Ok(whole)
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When a server had failed.
    pub async fn close(self) -> Result<()> {
        self.service.shut_down(Duration::ZERO).await;
        self.servers.0.stop();
        self.servers.1.stop();
        drop((self.grpc, self.http));
        self.serving.0.await??;
        self.serving.1.await?;
        Ok(())
    }
}

fn post(path: &str) -> hyper::http::request::Builder {
    Request::post(path).header("host", "localhost")
}

/// The whole body of an answer that must be good.
async fn body(http: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Result<Bytes> {
    http.ready().await?;
    let answer = http.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(body)
}
