//! One connection: preamble and hello, multiplexer, then one task per operation.
//!
//! ```text
//!   scanning ──preamble, hello──► session: operations
//!       ▲                            │ garbage, or the host closed
//!       └────────────────────────────┘   a newer connection or the end of the stream: over
//! ```
//!
//! When a session ends its streams end, and with them every operation: what they started is killed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_protocol::limits::REQUEST_DEADLINE;
use rekindle_protocol::mux::{self, Side, Stream};
use rekindle_protocol::wire::request::Op;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{self, ErrorCode, KillScope};
use rekindle_protocol::{VERSION, frame, preamble};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::agent::Agent;
use crate::failure::Failure;
use crate::{exec, files, interpreters, network, power, restore};

/// Lets the answer to a poweroff leave the guest before the guest goes.
const POWEROFF_DELAY: Duration = Duration::from_millis(50);

/// How long the rest of a session may take to leave after a quiesce.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(5);

/// Serves sessions on a stream until it ends or a newer connection takes over.
pub async fn serve(agent: Arc<Agent>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let introduce = |hello: &wire::HelloRequest| introduce(&agent, hello);
    let mut next = preamble::respond(stream, introduce).await;
    while let Ok(Some(mut stream)) = next {
        let mut newer = agent.begin_session();
        tokio::select! {
            () = session(&agent, &mut stream) => {}
            _ = newer.changed() => return,
        }
        next = preamble::respond_again(stream, introduce).await;
    }
}

/// What the operations of one session share.
#[derive(Default)]
struct State {
    /// Ends the session from this side: the guest is to be frozen and must not hold one.
    hang_up: Notify,
}

async fn session(agent: &Arc<Agent>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let (keep, mut incoming, driver) = mux::session(stream, Side::Guest);
    agent.network.set_session(Some(keep.clone()));
    let driver = driver.run();
    tokio::pin!(driver);
    let state = Arc::new(State::default());
    let accept = async {
        while let Some(stream) = incoming.next().await {
            tokio::spawn(operation(agent.clone(), stream, state.clone()));
        }
    };
    tokio::select! {
        _ = &mut driver => {}
        () = accept => {}
        () = state.hang_up.notified() => {
            // Nobody can open streams any more: the driver sends what waits, says goodbye and ends.
            agent.network.set_session(None);
            drop(keep);
            let _ = tokio::time::timeout(GOODBYE_DEADLINE, driver).await;
        }
    }
}

/// Reads the request of one stream and carries it out.
async fn operation(agent: Arc<Agent>, mut stream: Stream, state: Arc<State>) {
    let request =
        match tokio::time::timeout(REQUEST_DEADLINE, frame::read::<wire::Request>(&mut stream)).await {
            Ok(Ok(Some(request))) => request,
            // Nothing, silence or a broken stream: dropping it resets it.
            Ok(Ok(None) | Err(frame::FrameError::Io(_) | frame::FrameError::Truncated)) | Err(_) => return,
            Ok(Err(error)) => {
                return reply(stream, Failure::invalid(error.to_string()).into_response()).await;
            }
        };
    let Some(op) = request.op else {
        let unknown = Failure::new(ErrorCode::UnknownRequest, "this agent does not know the operation");
        return reply(stream, unknown.into_response()).await;
    };
    dispatch(&agent, op, stream, &state).await;
}

/// The table of operations. The ones that stream take the stream itself, the others answer once.
async fn dispatch(agent: &Arc<Agent>, op: Op, stream: Stream, state: &State) {
    let answer = match op {
        Op::Execute(request) => return exec::execute(agent, request, stream).await,
        Op::Upload(request) => return files::upload(agent, request, stream).await,
        Op::Download(request) => return files::download(agent, request, stream).await,
        Op::List(request) => return files::list(agent, request, stream).await,
        Op::Rename(request) => return files::rename(agent, request, stream).await,
        Op::Watch(request) => return files::watch(agent, request, stream).await,
        Op::Connect(request) => return network::connect(agent, request, stream).await,
        Op::Hello(_) => Err(Failure::invalid("hello comes before the session, and once")),
        Op::Ping(_) => Ok(Reply::Pong(pong())),
        Op::Restore(request) => restore::restore(agent, request).await.map(|()| done()),
        Op::Quiesce(request) => match restore::quiesce(agent, &request).await {
            Ok(()) => {
                reply(stream, response(done())).await;
                return state.hang_up.notify_one();
            }
            Err(failure) => Err(failure),
        },
        Op::Warm(request) => interpreters::start(agent, request).await.map(|()| done()),
        Op::Clock(request) => restore::adjust(agent, &request).map(|()| done()),
        Op::Signal(request) => exec::signal(agent, &request).map(|()| done()),
        Op::Resize(request) => exec::resize(agent, &request).map(|()| done()),
        Op::Stat(request) => files::stat(agent, request).await.map(Reply::File),
        Op::Mkdir(request) => files::mkdir(agent, request).await.map(Reply::File),
        Op::Remove(request) => files::remove(agent, request).await.map(|()| done()),
        Op::Stop(request) => restore::stop(agent, &request).await.map(|()| done()),
        Op::Poweroff(_) => {
            reply(stream, response(done())).await;
            tokio::time::sleep(POWEROFF_DELAY).await;
            power::off(agent.init)
        }
    };
    reply(stream, answer.map_or_else(Failure::into_response, response)).await;
}

/// A response that says just this.
pub fn response(reply: Reply) -> wire::Response {
    wire::Response { reply: Some(reply) }
}

fn done() -> Reply {
    Reply::Done(wire::Done {})
}

/// Sends the last frame of an operation. A host that is gone does not hear it.
pub async fn reply(mut stream: Stream, response: wire::Response) {
    if frame::write(&mut stream, &response).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}

/// The answer to a host's hello: our own, or a refusal.
fn introduce(agent: &Agent, hello: &wire::HelloRequest) -> Reply {
    let theirs = hello.version.unwrap_or_default();
    if theirs.major != VERSION.major {
        return Reply::Error(wire::Error {
            code: ErrorCode::VersionMismatch as i32,
            message: format!(
                "the host speaks protocol {}.{}, this agent {}.{}",
                theirs.major, theirs.minor, VERSION.major, VERSION.minor
            ),
        });
    }
    let controllers = agent.cgroups.controllers();
    let kill_scope = if agent.cgroups.usable() { KillScope::Cgroup } else { KillScope::ProcessGroup };
    Reply::Hello(wire::HelloResponse {
        version: Some(VERSION),
        program: concat!("rekindle-agent ", env!("CARGO_PKG_VERSION")).into(),
        capabilities: Some(wire::Capabilities {
            kill_scope: kill_scope as i32,
            memory_limits: controllers.memory,
            pids_limits: controllers.pids,
            cpu_limits: controllers.cpu,
            init: agent.init,
        }),
        gate_open: agent.gate.is_open(),
        running: agent.executions.count() as u32,
    })
}

fn pong() -> wire::Pong {
    let boot =
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Into::into);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    wire::Pong { unix_nanos: wall.as_nanos() as u64, boot_nanos: boot.as_nanos() as u64 }
}
