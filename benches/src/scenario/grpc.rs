//! What the service adds to an execution: `true` through gRPC, beside the same by the agent's client alone, in
//! turns in one warm sandbox.
//!
//! Everything between the caller and the agent is real: the socket, the API, tokens aside the whole service.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rekindle::agent::AgentClient;
use rekindle::door::{Authenticator, ConnectionLimits};
use rekindle::grpc::{HostFacts, Listeners, Server, ServerHandle, ServerOptions};
use rekindle::pool::Watermarks;
use rekindle::service::{Caller, Ledger, Service, ServiceConfig};
use rekindle::telemetry::{Audit, Metrics};
use rekindle_api::client::{Client, Target};
use rekindle_api::time::{duration, from_duration};
use rekindle_api::v1;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{Scenario, claim, roundtrip};
use crate::bed::Bed;
use crate::record::{Kind, Record, Sample};

/// Pairs taken in one round: each takes little time.
const PAIRS: usize = 5;
/// Pairs before the first one that counts.
const WARM_UP: usize = 20;

/// A service with one sandbox.
#[derive(Debug)]
pub struct Served {
    service: Service,
    client: Client,
    sandbox: String,
    direct: AgentClient,
    handle: ServerHandle,
    serving: JoinHandle<Result<(), rekindle::grpc::ServeError>>,
    _dir: TempDir,
}

impl Served {
    /// Starts the service and gets the sandbox used to it.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(bed: &Bed) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("rekindle.sock");
        let pool = claim::pool(bed, Watermarks { low: 0, high: 0 });
        let config = ServiceConfig::new(bed.source.recipe.name.clone());
        let service = Service::new(config, pool, Ledger::in_memory(), Arc::new(Metrics::new()));
        let options = ServerOptions {
            connections: ConnectionLimits::default(),
            max_streams: 128,
            facts: HostFacts::default(),
        };
        let authenticator = Authenticator::new(None, false)?;
        let server = Server::new(service.clone(), authenticator, Arc::new(Audit::to_log()), options).await?;
        let handle = server.handle();
        let listeners = Listeners::default().socket(&socket, 0o600, None).await?;
        let serving = tokio::spawn(server.serve(listeners));
        let (client, sandbox) = create(&socket).await?;
        let direct = service.agent(&Caller::local(), &sandbox)?;
        let mut served = Self { service, client, sandbox, direct, handle, serving, _dir: dir };
        for _ in 0..WARM_UP {
            served.pair().await?;
        }
        Ok(served)
    }

    /// Some pairs.
    ///
    /// # Errors
    /// When one fails.
    pub async fn sample(&mut self, record: &mut Record) -> Result<()> {
        for _ in 0..PAIRS {
            let (served, direct) = self.pair().await?;
            let kind = |name: &str, what: &str| Kind::time(Scenario::GrpcRoundtrip, name, what);
            record.add(kind("grpc_roundtrip", "`true` in a warm sandbox, over gRPC"), Sample::of(served.0));
            record.add(kind("grpc_direct", "the same by the agent's client"), Sample::of(direct.0));
            // The program's own time, as the guest measured it, is taken off both.
            let (served, direct) = (served.0.saturating_sub(served.1), direct.0.saturating_sub(direct.1));
            let added = served.saturating_sub(direct);
            record.add(
                kind("grpc_added", "the difference, the programs' own time left out"),
                Sample::of(added),
            );
        }
        Ok(())
    }

    /// Whole time and the program's own, over gRPC and without.
    async fn pair(&mut self) -> Result<((Duration, Duration), (Duration, Duration))> {
        Ok((self.served().await?, roundtrip::run_true(&self.direct).await?))
    }

    async fn served(&mut self) -> Result<(Duration, Duration)> {
        let command = v1::Command { argv: vec!["/bin/true".into()] };
        let request = v1::ExecuteRequest {
            sandbox: self.sandbox.clone(),
            program: Some(v1::Program { program: Some(v1::program::Program::Command(command)) }),
            ..v1::ExecuteRequest::default()
        };
        let begun = Instant::now();
        let answer = self.client.sandboxes.execute(request).await?.into_inner();
        let whole = begun.elapsed();
        ensure!(answer.ended() == Some(v1::execution_outcome::Outcome::ExitCode(0)), "{answer:?}");
        let own = answer.usage.context("an answer without usage")?.wall_time.and_then(from_duration);
        Ok((whole, own.context("an answer without a time")?))
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When the server had failed.
    pub async fn close(self) -> Result<()> {
        self.service.shut_down(Duration::ZERO).await;
        self.handle.stop();
        drop(self.client);
        self.serving.await??;
        Ok(())
    }
}

async fn create(socket: &Path) -> Result<(Client, String)> {
    let mut client = Client::connect(&Target::Socket(socket.to_owned()), None).await?;
    let ttl = Some(duration(Duration::from_secs(12 * 60 * 60)));
    let request = v1::CreateSandboxRequest { ttl, ..v1::CreateSandboxRequest::default() };
    let sandbox = client.sandboxes.create(request).await?.into_inner();
    Ok((client, sandbox.id))
}
