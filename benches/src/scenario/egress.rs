//! What a network costs: a download and an upload through the gate beside the channel that carries them, and executions in
//! a sandbox that has a network, idle and at full speed, beside one that has none.
//!
//! The gate is served as `serve` does it: by a worker, a process of its own. The server is on loopback and reached by a rule
//! for `tcp`. It does the timing: from the connection to the client's word that it has the last byte, or to the last
//! byte itself. What the set-up for a network costs a start, which is part of every snapshot, is measured by
//! `--ablate --only network`: there a template without it takes turns with the usual one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rekindle::agent::AgentClient;
use rekindle::network::{
    Access, Egress, Gate, Gateway, PolicySpec, Protocol, RuleSpec, Worker, WorkerOptions,
};
use rekindle::telemetry::Metrics;
use rekindle::vm::Vm;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::transfer::{self, RawChannel, SIZE};
use super::{Scenario, first_run, roundtrip};
use crate::bed::{Bed, PATIENCE};
use crate::record::{Kind, Record, Sample, Unit};

/// Executions of each kind in one round: each takes little time.
const CALLS: usize = 5;
/// Bytes that have moved when a transfer is at full speed.
const UNDER_WAY: usize = 4 << 20;
/// The server's name and port in the guest.
const HOST: &str = "bench.example.com";
const PORT: u16 = 9000;
/// Takes all that the server sends, and then ends the connection.
const FETCH: &str = "import socket
c = socket.create_connection(('bench.example.com', 9000))
b = bytearray(1 << 18)
while c.recv_into(b): pass
c.close()
";
/// Sends as much as is asked for, and ends when the server does.
const SEND: &str = "import socket, sys
c = socket.create_connection(('bench.example.com', 9000))
b = bytes(1 << 18)
for _ in range(int(sys.argv[1]) // len(b)): c.sendall(b)
c.shutdown(socket.SHUT_WR)
c.recv(1)
";

/// Two programs that compute until they are told to stop.
const WORK: &str = "rm -f /tmp/done; for i in 1 2; do while [ ! -e /tmp/done ]; do :; done & done; wait";

/// A sandbox with a network, one without, and the bare channel.
pub struct Networked {
    vm: Vm,
    gate: Arc<Gate>,
    worker: Worker,
    metrics: Metrics,
    plain: Vm,
    raw: RawChannel,
    listener: TcpListener,
    content: Bytes,
}

impl Networked {
    /// Makes them ready.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(bed: &Bed) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let rule =
            RuleSpec { host: HOST.to_owned(), ports: vec![PORT], protocol: Protocol::Tcp, record: None };
        let spec = PolicySpec { mode: Access::Allow, allow: vec![rule], ..PolicySpec::default() };
        let hosts: BTreeMap<String, SocketAddr> = [(HOST.to_owned(), listener.local_addr()?)].into();
        let egress = Egress::new(&[("bench".to_owned(), spec)].into(), &hosts)?;
        let metrics = Metrics::new();
        let options = WorkerOptions::this_program(metrics.network_worker_restarts());
        let worker = Worker::start(options, &egress, &Gateway::default()).await?;
        let egress = egress.through(worker.clone());
        let gate = Arc::new(egress.gate(egress.policy("bench").context("the policy")?, None));
        let (vm, plain) = (bed.clone().await?, bed.clone().await?);
        // It ends with the machine's session.
        tokio::spawn(Arc::clone(&gate).serve(vm.agent().take_streams(), Arc::clone(vm.agent().meter())));
        for agent in [vm.agent(), plain.agent()] {
            roundtrip::warm_up(agent).await?;
        }
        let (raw, content) = (RawChannel::open(bed).await?, transfer::content()?);
        Ok(Self { vm, gate, worker, metrics, plain, raw, listener, content })
    }

    /// One download and one upload, as many bytes over the bare channel and as a file, and executions of each kind.
    ///
    /// # Errors
    /// When one of them fails.
    pub async fn sample(&mut self, record: &mut Record) -> Result<()> {
        let took = self.download().await?;
        speed("egress_in", "16 MiB through the gate to a program in a sandbox", took, record);
        let took = timeout(PATIENCE, self.raw.send_in(&self.content)).await??;
        speed("egress_raw_in", "16 MiB into a guest over the bare channel", took, record);
        let took = self.upload().await?;
        speed("egress_out", "16 MiB from a program in a sandbox through the gate", took, record);
        let took = timeout(PATIENCE, self.raw.fetch_out(SIZE)).await??;
        speed("egress_raw_out", "16 MiB out of a guest over the bare channel", took, record);
        let took = transfer::put(self.vm.agent(), &self.content).await?;
        speed("egress_upload", "the same as a file into the sandbox", took, record);
        for _ in 0..CALLS {
            let (idle, plain) = (self.vm.agent(), self.plain.agent());
            call("egress_exec", "`true` with an idle network, its own time left out", idle, record).await?;
            call("egress_exec_plain", "the same in a sandbox without a network", plain, record).await?;
        }
        self.calls_beside_work(record).await?;
        self.calls_while_busy(record).await
    }

    async fn download(&self) -> Result<Duration> {
        let serving = async {
            let (mut stream, _) = self.listener.accept().await?;
            let begun = Instant::now();
            stream.write_all(&self.content).await?;
            farewell(&mut stream).await?;
            anyhow::Ok(begun.elapsed())
        };
        let (took, ()) = timeout(PATIENCE, async { tokio::try_join!(serving, self.fetch()) }).await??;
        Ok(took)
    }

    async fn upload(&self) -> Result<Duration> {
        let serving = async {
            let (mut stream, _) = self.listener.accept().await?;
            let begun = Instant::now();
            let (mut buffer, mut came) = (vec![0; 256 << 10], 0);
            loop {
                let read = stream.read(&mut buffer).await?;
                if read == 0 {
                    break;
                }
                came += read;
            }
            let took = begun.elapsed();
            ensure!(came == SIZE, "{came} bytes arrived");
            anyhow::Ok(took)
        };
        let size = SIZE.to_string();
        let words = ["python3", "-c", SEND, &size];
        let sending = self.run(&words);
        let (took, ()) = timeout(PATIENCE, async { tokio::try_join!(serving, sending) }).await??;
        Ok(took)
    }

    /// Executions beside as many programs that compute as there are processors: what a busy guest costs without a network.
    async fn calls_beside_work(&self, record: &mut Record) -> Result<()> {
        let working = async { self.run(&["sh", "-c", WORK]).await };
        let calling = async {
            for _ in 0..CALLS {
                let what = "`true` beside two programs that compute, its own time left out";
                call("egress_exec_work", what, self.vm.agent(), record).await?;
            }
            self.run(&["touch", "/tmp/done"]).await?;
            anyhow::Ok(())
        };
        timeout(PATIENCE, async { tokio::try_join!(working, calling) }).await??;
        Ok(())
    }

    /// Executions while a download takes all it can get.
    async fn calls_while_busy(&self, record: &mut Record) -> Result<()> {
        let (stop, mut stopped) = oneshot::channel::<()>();
        let moved = AtomicUsize::new(0);
        let serving = async {
            let (mut stream, _) = self.listener.accept().await?;
            let pieces = self.content.chunks(64 << 10).cycle();
            for piece in pieces {
                if stopped.try_recv().is_ok() {
                    break;
                }
                stream.write_all(piece).await?;
                moved.fetch_add(piece.len(), Relaxed);
            }
            farewell(&mut stream).await
        };
        let calling = async {
            while moved.load(Relaxed) < UNDER_WAY {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let before = moved.load(Relaxed);
            for _ in 0..CALLS {
                let what = "`true` during a download at full speed, its own time left out";
                call("egress_exec_busy", what, self.vm.agent(), record).await?;
            }
            ensure!(moved.load(Relaxed) > before, "nothing moved meanwhile");
            let _ = stop.send(());
            anyhow::Ok(())
        };
        let all = async { tokio::try_join!(serving, calling, self.fetch()) };
        timeout(PATIENCE, all).await??;
        Ok(())
    }

    async fn fetch(&self) -> Result<()> {
        self.run(&["python3", "-c", FETCH]).await
    }

    async fn run(&self, words: &[&str]) -> Result<()> {
        first_run::execute(self.vm.agent(), first_run::command(words), "").await.map(drop)
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When something of it stays behind, or bytes took another way than through the worker.
    pub async fn close(self) -> Result<()> {
        let restarts = self.metrics.network_worker_restarts().get();
        let summary = self.gate.summary();
        let (least, failed) = (SIZE as u64, summary.denied + summary.failed);
        ensure!(self.worker.pid().is_some() && restarts == 0, "the worker was replaced {restarts} times");
        ensure!(failed == 0 && summary.up >= least && summary.down >= least, "{summary:?}");
        self.vm.stop().await;
        self.plain.stop().await;
        self.raw.close().await
    }
}

/// Ends the server's half, and waits for the client's word that it has all.
async fn farewell(stream: &mut TcpStream) -> Result<()> {
    stream.shutdown().await?;
    ensure!(stream.read(&mut [0; 1]).await? == 0, "the client says something");
    Ok(())
}

async fn call(name: &str, what: &str, agent: &AgentClient, record: &mut Record) -> Result<()> {
    let took = roundtrip::after_a_rest(agent).await?;
    record.add(Kind::time(Scenario::Egress, name, what), Sample::of(took));
    Ok(())
}

fn speed(name: &str, what: &str, took: Duration, record: &mut Record) {
    let kind = Kind::time(Scenario::Egress, name, what).in_unit(Unit::MebibytesPerSecond);
    record.add(kind, Sample::number(SIZE as f64 / (1 << 20) as f64 / took.as_secs_f64()));
}
