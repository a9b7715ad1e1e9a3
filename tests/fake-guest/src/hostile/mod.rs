//! A guest whose root has replaced the agent: it speaks the protocol, wrongly, in every way a seed can draw.
//!
//! ```text
//! opening ──▶ frames of the multiplexer, by hand ──▶ end
//!    │ └────▶ a session ──▶ each request: answered in order, or with a trick
//!    └──▶ noise, half a hello, another's hello, nothing
//! ```
//!
//! What it does follows from its seed alone, as far as the order of the host's requests does. It lasts until its
//! connection ends or [`Guests::pacify`](crate::Guests::pacify) ends it. Where it floods, time passes between two
//! pieces, so that a test with a clock of its own sees the host's deadlines.

mod answer;
mod lies;
mod opening;
mod raw;

use std::sync::Arc;
use std::time::Duration;

use rekindle_protocol::mux::{self, Side, Stream};
use rekindle_protocol::wire::{self, request::Op};
use rekindle_protocol::{frame, preamble};
use rekindle_test_support::random::Random;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use self::answer::Answering;

/// Requests that are answered in good order before the first trick, at most.
const GOOD_BEGINNING: u64 = 4;

/// Serves one connection in bad faith.
pub(crate) async fn serve(seed: u64, mut io: DuplexStream) {
    let mut random = Random::new(seed);
    if random.one_in(5) {
        match opening::trick(&mut random, &mut io).await {
            opening::After::Session => {}
            opening::After::End => return,
            opening::After::Silence => return std::future::pending().await,
        }
    } else {
        let hello = opening::hello();
        let welcome = |_: &wire::HelloRequest| wire::response::Reply::Hello(hello.clone());
        let Ok(Some(opened)) = preamble::respond(io, welcome).await else { return };
        if random.one_in(4) {
            return raw::converse(&mut random, opened).await;
        }
        return session(&mut random, opened).await;
    }
    session(&mut random, io).await;
}

async fn session(
    random: &mut Random,
    io: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
) {
    let (opener, mut incoming, driver) = mux::session(io, Side::Guest);
    // Everything of this guest ends with this function.
    let mut tasks = JoinSet::new();
    let session = tasks.spawn(driver);
    let good = random.below(GOOD_BEGINNING);
    let answering = Arc::new(Answering { opener, session });
    let mut requests = 0;
    loop {
        tokio::select! {
            stream = incoming.next() => {
                let Some(stream) = stream else { return };
                let tricks = requests >= good && !random.one_in(3);
                requests += 1;
                tasks.spawn(request(random.fork(), stream, tricks, Arc::clone(&answering)));
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn request(mut random: Random, mut stream: Stream, tricks: bool, answering: Arc<Answering>) {
    let Ok(Some(wire::Request { op: Some(op) })) = frame::read(&mut stream).await else { return };
    // A sign of life is given mostly: it is what the host's patience hangs on.
    let tricks = tricks && (!matches!(op, Op::Ping(_)) || random.one_in(4));
    answering.answer(&mut random, op, stream, tricks).await;
}

/// Time between two pieces of something that does not end.
fn pace(random: &mut Random) -> Duration {
    Duration::from_millis(random.pick(&[1, 10, 100, 900, 5_000, 50_000]))
}
