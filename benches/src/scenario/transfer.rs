//! Files in and out of a warm sandbox, beside the raw channel that carries them.
//!
//! The raw channel is measured with a machine of its own: the same engine, kernel, image and devices, but
//! for an init that is a shell around `dd` on the channel. No agent, no multiplexer, no checksum, no file:
//! bytes from a process on the host to `/dev/null` in the guest, and from `/dev/zero` back. Both machines
//! run side by side and take turns.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use rekindle::agent::{AgentClient, GuestPath, TransferPatience, UploadOptions};
use rekindle::engine::{BootSpec, ByteStream, EngineKind, Machine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Scenario;
use crate::bed::{Bed, Ground, PATIENCE};
use crate::record::{Kind, Record, Sample, Unit};

/// Bytes of one transfer.
pub const SIZE: usize = 16 << 20;
/// Bytes of one piece on the raw channel.
const PIECE: usize = 64 << 10;
/// The file in the sandbox.
const FILE: &str = "/home/user/bench.bin";
/// What the shell in the raw machine does with the channel on its standard input and output.
const SHELL: &str = "echo up; while read v n; do if [ $v = in ]; \
    then dd of=/dev/null bs=64k count=$n iflag=fullblock status=none; echo ok; \
    else dd if=/dev/zero bs=64k count=$n status=none; fi; done";

/// A machine whose channel ends in `dd`.
pub struct RawChannel {
    machine: Box<dyn Machine>,
    stream: Box<dyn ByteStream>,
    ground: Ground,
}

impl RawChannel {
    /// Boots it.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn open(bed: &Bed) -> Result<Self> {
        let ground = bed.ground()?;
        // The shell has no name for either channel, so an interpreter opens it first. The kernel hands words it
        // does not know to init: those with an equals sign as variables, the others as arguments. So the code
        // is in a variable, and has no spaces because nothing there could quote it.
        let open = match bed.kind() {
            EngineKind::Firecracker => {
                "s=__import__('socket');l=s.socket(40,1);l.bind((2**32-1,1024));l.listen();\
                 r=s.socket(40,1);r.connect((2,1025));f=l.accept()[0].detach()"
            }
            EngineKind::Qemu | EngineKind::Fake => {
                "f=os.open(__import__('glob').glob('/dev/vport*')[0],os.O_RDWR)"
            }
        };
        let run = "os.dup2(f,0);os.dup2(f,1);os.execv('/bin/sh',['sh','-c',os.environ['SH']])";
        let words = [
            "init=/bin/sh".to_owned(),
            "-c".to_owned(),
            "\"exec python3 -c $PY\"".to_owned(),
            format!("PY=os=__import__('os');{open};{run}"),
            format!("SH=\"{SHELL}\""),
        ];
        let spec = BootSpec {
            hardware: ground.hardware.clone(),
            home: ground.home()?,
            kernel: bed.source.kernel.path.clone(),
            kernel_args: words.to_vec(),
            snapshot_dir: None,
        };
        let machine = bed.engine().launch(spec).await?.machine;
        let connect = async {
            let mut stream = machine.dial().await?;
            expect(&mut stream, b"up\n").await?;
            anyhow::Ok(stream)
        };
        let stream = match timeout(PATIENCE, connect).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(error.context(format!("the raw machine failed: {}", machine.last_words().trim())));
            }
            Err(_) => anyhow::bail!("the raw machine did not come up"),
        };
        Ok(Self { machine, stream, ground })
    }

    /// So many bytes into the guest, until it says that it has them.
    ///
    /// # Errors
    /// When the channel ends.
    pub async fn send_in(&mut self, content: &[u8]) -> Result<Duration> {
        let begun = Instant::now();
        self.stream.write_all(format!("in {}\n", content.len() / PIECE).as_bytes()).await?;
        self.stream.write_all(content).await?;
        self.stream.flush().await?;
        expect(&mut self.stream, b"ok\n").await?;
        Ok(begun.elapsed())
    }

    /// So many bytes out of the guest.
    ///
    /// # Errors
    /// When the channel ends.
    pub async fn fetch_out(&mut self, mut left: usize) -> Result<Duration> {
        let mut buffer = vec![0; PIECE];
        let begun = Instant::now();
        self.stream.write_all(format!("out {}\n", left / PIECE).as_bytes()).await?;
        self.stream.flush().await?;
        while left > 0 {
            let most = left.min(PIECE);
            let count = self.stream.read(&mut buffer[..most]).await?;
            ensure!(count > 0, "the raw channel ended");
            left -= count;
        }
        Ok(begun.elapsed())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When something of it stays behind.
    pub async fn close(self) -> Result<()> {
        let Self { machine, stream, ground } = self;
        drop(stream);
        machine.kill().await;
        ground.close().await
    }
}

async fn expect(stream: &mut Box<dyn ByteStream>, word: &[u8]) -> Result<()> {
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).await?;
    ensure!(answer == word, "the raw machine said {:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Some bytes that no channel can shorten.
///
/// # Errors
/// When no random bytes can be had.
pub fn content() -> Result<Bytes> {
    let mut content = vec![0; SIZE];
    getrandom::fill(&mut content).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    Ok(content.into())
}

/// One file in, and as many raw bytes.
///
/// # Errors
/// When one of them fails.
pub async fn upload(
    agent: &AgentClient,
    raw: &mut RawChannel,
    content: &Bytes,
    record: &mut Record,
) -> Result<()> {
    let took = put(agent, content).await?;
    add(Scenario::Upload, "upload", "a file of 16 MiB into a warm sandbox", took, record);
    let took = timeout(PATIENCE, raw.send_in(content)).await??;
    add(Scenario::Upload, "raw_in", "16 MiB into a guest over the bare channel", took, record);
    Ok(())
}

/// One file out, and as many raw bytes.
///
/// # Errors
/// When one of them fails.
pub async fn download(
    agent: &AgentClient,
    raw: &mut RawChannel,
    sink: &mut Vec<u8>,
    record: &mut Record,
) -> Result<()> {
    sink.clear();
    let begun = Instant::now();
    let limit = SIZE as u64;
    let done = agent.download(&path()?, limit, &mut *sink, TransferPatience::default()).await?;
    let took = begun.elapsed();
    ensure!(done.size == limit && sink.len() == SIZE, "{} bytes came back", done.size);
    add(Scenario::Download, "download", "a file of 16 MiB out of a warm sandbox", took, record);
    let took = timeout(PATIENCE, raw.fetch_out(SIZE)).await??;
    add(Scenario::Download, "raw_out", "16 MiB out of a guest over the bare channel", took, record);
    Ok(())
}

/// Puts the file into the sandbox.
///
/// # Errors
/// When it does not arrive.
pub async fn put(agent: &AgentClient, content: &Bytes) -> Result<Duration> {
    let begun = Instant::now();
    let options = UploadOptions { size: Some(content.len() as u64), ..UploadOptions::default() };
    agent.upload(&path()?, options, content.as_ref(), TransferPatience::default()).await?;
    Ok(begun.elapsed())
}

fn path() -> Result<GuestPath> {
    Ok(GuestPath::new(FILE.as_bytes().to_vec())?)
}

fn add(scenario: Scenario, name: &str, what: &str, took: Duration, record: &mut Record) {
    let kind = Kind::time(scenario, name, what).in_unit(Unit::MebibytesPerSecond);
    record.add(kind, Sample::number(SIZE as f64 / (1 << 20) as f64 / took.as_secs_f64()));
}
