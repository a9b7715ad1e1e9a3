//! One connection: preamble and hello, then one task per operation, as the real agent does it.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rekindle_protocol::limits::{MAX_ENTROPY_BYTES, MIN_ENTROPY_BYTES};
use rekindle_protocol::mux::{self, RawStream, Side, Stream};
use rekindle_protocol::wire::{self, ErrorCode, request::Op, response::Reply};
use rekindle_protocol::{VERSION, frame, preamble};
use tokio::io::DuplexStream;
use tokio::sync::Notify;

use crate::guest::Guest;
use crate::reply::{Refused, done, finish, send};
use crate::{execute, files, watch};

/// Serves one guest until its connection ends.
pub(crate) async fn serve(guest: Guest, io: DuplexStream) {
    if guest.manner().silent {
        let _held = io;
        return std::future::pending().await;
    }
    let introduction = guest.clone();
    let Ok(Some(io)) = preamble::respond(io, |_| Reply::Hello(hello(&introduction))).await else { return };
    let (opener, mut incoming, driver) = mux::session(io, Side::Guest);
    let driver = tokio::spawn(driver);
    let hang_up = Arc::new(Notify::new());
    guest.connects_by(Some(opener.clone()));
    let booted = Instant::now();
    let accept = async {
        while let Some(stream) = incoming.next().await {
            tokio::spawn(operation(guest.clone(), stream, Arc::clone(&hang_up), booted));
        }
    };
    tokio::select! {
        () = accept => {}
        () = hang_up.notified() => {}
        () = guest.crashed() => {
            guest.connects_by(None);
            return driver.abort();
        }
    }
    // What waits is still sent; then the session ends from this side.
    guest.connects_by(None);
    drop(opener);
    let _ = driver.await;
}

async fn operation(guest: Guest, mut stream: Stream, hang_up: Arc<Notify>, booted: Instant) {
    let Ok(Some(wire::Request { op: Some(op) })) = frame::read(&mut stream).await else { return };
    if let Some(code) = guest.refusal() {
        return finish(stream, Err((code, "it was told to refuse"))).await;
    }
    let answer = match op {
        Op::Hello(_) => Err((ErrorCode::InvalidArgument, "hello comes before the session, and once")),
        Op::Ping(_) => Ok(Reply::Pong(pong(booted))),
        Op::Restore(_) if guest.manner().silent_gate => {
            let _held = stream;
            return std::future::pending().await;
        }
        Op::Restore(request) => restore(&guest, request),
        Op::Warm(_) => Ok(done()),
        Op::Quiesce(_) if guest.running() > 0 => Err((ErrorCode::Busy, "something is under way")),
        Op::Quiesce(_) => {
            guest.close();
            finish(stream, Ok(done())).await;
            if guest.manner().stays_on_the_line {
                return;
            }
            return hang_up.notify_one();
        }
        Op::Poweroff(_) => {
            finish(stream, Ok(done())).await;
            return hang_up.notify_one();
        }
        _ if !guest.is_open() => Err((ErrorCode::GateClosed, "the restore gate is closed")),
        Op::Clock(_) if guest.manner().refuses_clock => Err((ErrorCode::UnknownRequest, "no such operation")),
        Op::Clock(request) => {
            guest.set_clock(request.unix_nanos);
            Ok(done())
        }
        Op::Stop(_) if guest.manner().refuses_stop => Err((ErrorCode::NoSpace, "no room for the root")),
        Op::Stop(_) if guest.manner().silent_stop => std::future::pending().await,
        Op::Stop(_) => {
            guest.stop();
            Ok(done())
        }
        Op::Execute(request) => return execute::execute(&guest, request, stream).await,
        Op::Upload(request) => return files::upload(&guest, request, stream).await,
        Op::Download(request) => return files::download(&guest, &request, stream).await,
        Op::List(request) => return files::list(&guest, &request, stream).await,
        Op::Watch(request) => return watch::watch(&guest, &request, stream).await,
        Op::Connect(request) => match guest.listener(request.port) {
            Some(listener) => {
                if send(&mut stream, done()).await {
                    let _ = listener.send(RawStream::new(stream));
                }
                return;
            }
            None => Err((ErrorCode::NotFound, "nothing listens there")),
        },
        Op::Signal(request) if request.signal == 0 && guest.is_running(request.execution) => Ok(done()),
        Op::Signal(request) if request.signal != 0 && guest.signal(request.execution, request.signal) => {
            Ok(done())
        }
        Op::Resize(request) if guest.is_running(request.execution) => Ok(done()),
        Op::Signal(_) | Op::Resize(_) => Err((ErrorCode::NotFound, "no such execution")),
        Op::Stat(request) => guest.files().stat(&request.path).map(Reply::File),
        Op::Mkdir(request) => guest.files().mkdir(&request).map(Reply::File),
        Op::Rename(request) => guest.files().rename(&request).map(Reply::File),
        Op::Remove(request) => guest.files().remove(&request.path, request.recursive).map(|()| done()),
    };
    finish(stream, answer).await;
}

fn restore(guest: &Guest, request: wire::RestoreRequest) -> Result<Reply, Refused> {
    if guest.manner().refuses_gate {
        return Err((ErrorCode::GateFailed, "entropy: no"));
    }
    if !(MIN_ENTROPY_BYTES..=MAX_ENTROPY_BYTES).contains(&request.entropy.len()) {
        return Err((ErrorCode::InvalidArgument, "too little or too much entropy"));
    }
    if guest.is_open() {
        if !request.renew || guest.manner().refuses_renewal {
            return Err((ErrorCode::InvalidArgument, "the restore gate is open already"));
        }
        if request.scratch.is_some() {
            return Err((ErrorCode::InvalidArgument, "a renewal brings no scratch disk"));
        }
        if guest.running() > 0 {
            return Err((ErrorCode::Busy, "something is under way"));
        }
    }
    guest.open(request);
    Ok(done())
}

fn hello(guest: &Guest) -> wire::HelloResponse {
    wire::HelloResponse {
        version: Some(VERSION),
        program: "fake-guest 0".into(),
        capabilities: Some(wire::Capabilities {
            kill_scope: wire::KillScope::Cgroup.into(),
            memory_limits: true,
            pids_limits: true,
            cpu_limits: true,
            init: true,
        }),
        gate_open: guest.is_open(),
        running: 0,
    }
}

fn pong(booted: Instant) -> wire::Pong {
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    wire::Pong { unix_nanos: nanos(now), boot_nanos: nanos(booted.elapsed()) }
}
