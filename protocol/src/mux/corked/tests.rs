//! What leaves together, what waits, and what a stream that is stuck does.

use std::task::Waker;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::session;
use super::*;

/// A stream that remembers every write, and takes no more than there is room for.
#[derive(Debug)]
struct Recorder {
    writes: Vec<Vec<u8>>,
    room: usize,
    /// Takes several parts in one write.
    vectored: bool,
}

impl AsyncWrite for Recorder {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let taken = self.room.min(data.len());
        if taken == 0 {
            return Poll::Pending;
        }
        self.room -= taken;
        self.writes.push(data[..taken].to_vec());
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        assert!(self.vectored, "it said that it does not");
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.poll_write(cx, &whole)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn recorded(side: Side) -> (Corked<Recorder>, Cork<Recorder>) {
    cork(Recorder { writes: Vec::new(), room: usize::MAX, vectored: false }, side, Held::default())
}

fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("small");
    let head = [[0, kind, 0, flags], 7u32.to_be_bytes(), length.to_be_bytes()].concat();
    [&head, body].concat()
}

fn ping() -> Vec<u8> {
    frame(PING, 1, &[])
}

fn end() -> Vec<u8> {
    frame(DATA, END, &[])
}

fn write(stream: &mut Corked<Recorder>, data: &[u8]) -> Poll<io::Result<usize>> {
    Pin::new(stream).poll_write(&mut Context::from_waker(Waker::noop()), data)
}

fn pull(cork: &Cork<Recorder>) -> Poll<bool> {
    cork.pull(&mut Context::from_waker(Waker::noop())).map(|pulled| pulled.expect("a stream that works"))
}

fn writes(cork: &Cork<Recorder>) -> Vec<Vec<u8>> {
    lock(&cork.0).io.writes.clone()
}

#[test]
fn a_ping_waits_for_a_frame_that_somebody_waits_for() {
    for side in [Side::Host, Side::Guest] {
        let (mut stream, cork) = recorded(side);
        assert!(write(&mut stream, &ping()).is_ready());
        assert!(pull(&cork).is_ready());
        assert_eq!(writes(&cork), [[0u8; 0]; 0], "nobody waits for a ping");
        let data = frame(DATA, 0, b"request");
        let (head, body) = data.split_at(5);
        assert!(write(&mut stream, head).is_ready());
        assert!(write(&mut stream, body).is_ready());
        assert!(pull(&cork).is_ready());
        assert_eq!(writes(&cork), [[ping(), data].concat()], "one write");
    }
}

/// The peer says so.
fn hear(cork: &Cork<Recorder>, data: &[u8]) {
    lock(&cork.0).arrived(data).expect("a peer that behaves");
}

#[test]
fn a_host_that_ends_its_half_first_is_heard_at_once() {
    let (mut stream, cork) = recorded(Side::Host);
    assert!(write(&mut stream, &end()).is_ready());
    assert!(pull(&cork).is_ready());
    assert_eq!(writes(&cork), [end()], "the guest waits to hear that all is said");
    // An answer to it, and then the same number once more: nothing is remembered of the first.
    hear(&cork, &end());
    assert!(write(&mut stream, &frame(DATA, RESET, &[])).is_ready());
    assert!(write(&mut stream, &end()).is_ready());
    assert!(pull(&cork).is_ready());
    assert!(lock(&cork.0).ended.is_empty());
}

#[test]
fn a_guest_that_ends_what_there_is_not_is_remembered_only_so_far() {
    let (_stream, cork) = recorded(Side::Host);
    for stream in 0..3 * MAX_STREAMS as u32 {
        let mut end = end();
        end[4..8].copy_from_slice(&stream.to_be_bytes());
        hear(&cork, &end);
    }
    assert_eq!(lock(&cork.0).ended.len(), MAX_STREAMS);
}

#[test]
fn a_hosts_agreement_to_an_end_waits_and_a_guests_end_does_not() {
    let (mut stream, cork) = recorded(Side::Host);
    hear(&cork, &end());
    assert!(write(&mut stream, &end()).is_ready());
    assert!(pull(&cork).is_ready());
    assert!(writes(&cork).is_empty());
    let reset = frame(DATA, RESET, &[]);
    assert!(write(&mut stream, &reset).is_ready());
    assert!(pull(&cork).is_ready());
    assert_eq!(writes(&cork), [[end(), reset].concat()], "a cancellation is waited for");

    let (mut stream, cork) = recorded(Side::Guest);
    assert!(write(&mut stream, &end()).is_ready());
    assert!(pull(&cork).is_ready());
    assert_eq!(writes(&cork), [end()]);

    // The guest has opened it, and waits to hear that the other side has said all.
    let (mut stream, cork) = recorded(Side::Host);
    let mut end = end();
    end[7] = 8;
    hear(&cork, &end);
    assert!(write(&mut stream, &end).is_ready());
    assert!(pull(&cork).is_ready());
    assert_eq!(writes(&cork), [end]);
}

#[test]
fn a_body_that_looks_like_a_ping_is_none() {
    let (mut stream, cork) = recorded(Side::Guest);
    let data = frame(DATA, 0, &[ping(), ping()].concat());
    for byte in data.chunks(1) {
        assert!(write(&mut stream, byte).is_ready());
    }
    assert!(pull(&cork).is_ready());
    assert_eq!(writes(&cork), [data]);
}

#[test]
fn what_waits_is_bounded_and_a_stream_that_moves_again_is_told() {
    for vectored in [false, true] {
        let (mut stream, cork) = recorded(Side::Guest);
        lock(&cork.0).io.vectored = vectored;
        lock(&cork.0).io.room = 100;
        let data = frame(DATA, 0, &[b'x'; MAX_BODY_BYTES]);
        let mut taken = 0;
        while write(&mut stream, &data).is_ready() {
            taken += data.len();
            assert!(taken <= MOST + 2 * data.len(), "{taken} bytes wait");
        }
        assert!(pull(&cork).is_pending());
        lock(&cork.0).io.room = usize::MAX;
        assert_eq!(pull(&cork), Poll::Ready(true), "there is room where there was none");
        assert_eq!(pull(&cork), Poll::Ready(false));
        assert_eq!(writes(&cork).concat().len(), taken);
    }
}

#[test]
fn a_large_piece_goes_at_once_and_takes_along_what_has_gathered() {
    let (mut stream, cork) = recorded(Side::Host);
    lock(&cork.0).io.vectored = true;
    let data = frame(DATA, 0, &[b'x'; MAX_BODY_BYTES]);
    let (head, body) = data.split_at(HEAD);
    for part in [&ping(), head, body] {
        assert!(write(&mut stream, part).is_ready());
    }
    assert_eq!(writes(&cork), [[ping(), data].concat()], "one write, before it is pulled");
    assert_eq!(pull(&cork), Poll::Ready(false));
    assert_eq!(writes(&cork).len(), 1, "nothing is left");
}

#[test]
fn what_a_stream_does_not_take_of_a_large_piece_follows_in_order() {
    let data = frame(DATA, 0, &(0..MAX_BODY_BYTES).map(|at| (at % 251) as u8).collect::<Vec<_>>());
    let (head, body) = data.split_at(HEAD);
    // Nothing, some of the head, all of it, some of the body, all but one byte.
    for room in [0, 5, HEAD, HEAD + 1000, data.len() - 1] {
        let (mut stream, cork) = recorded(Side::Guest);
        lock(&cork.0).io.vectored = true;
        lock(&cork.0).io.room = room;
        assert!(write(&mut stream, head).is_ready());
        assert!(write(&mut stream, body).is_ready(), "it is taken, whatever the stream does");
        assert!(pull(&cork).is_pending());
        lock(&cork.0).io.room = usize::MAX;
        assert_eq!(pull(&cork), Poll::Ready(false));
        assert_eq!(writes(&cork).concat(), data, "{room}");
    }
}

#[test]
fn a_shutdown_writes_what_waits() {
    let (mut stream, cork) = recorded(Side::Host);
    assert!(write(&mut stream, &ping()).is_ready());
    let shutdown = Pin::new(&mut stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(shutdown, Poll::Ready(Ok(()))));
    assert_eq!(writes(&cork), [ping()]);
}

/// Counts the writes that go into a stream.
struct Counted<T> {
    io: T,
    writes: Arc<Mutex<usize>>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, out)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        *self.writes.lock().expect("no panic") += 1;
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_request_is_one_write_and_its_answer_is_one() {
    let (host, guest) = tokio::io::duplex(1 << 16);
    let count = || Arc::new(Mutex::new(0));
    let (from_host, from_guest) = (count(), count());
    let (opener, _, driver) = session(Counted { io: host, writes: from_host.clone() }, Side::Host);
    tokio::spawn(driver);
    let (_keep, mut incoming, driver) =
        session(Counted { io: guest, writes: from_guest.clone() }, Side::Guest);
    tokio::spawn(driver);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.next().await {
            let mut request = [0; 7];
            stream.read_exact(&mut request).await.expect("a request");
            stream.write_all(b"answer").await.expect("sent");
            stream.shutdown().await.expect("ended");
        }
    });
    for round in 1..=5 {
        let mut stream = opener.open().await.expect("a stream");
        stream.write_all(b"request").await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("received");
        assert_eq!(answer, "answer");
        drop(stream);
        assert_eq!(*from_host.lock().expect("no panic"), round);
        assert_eq!(*from_guest.lock().expect("no panic"), round);
    }
}

#[tokio::test]
async fn who_has_much_to_read_gives_others_their_turn() {
    let (mut corked, cork) = cork(tokio::io::repeat(0), Side::Guest, Held::default());
    let turn = async |corked: &mut Corked<_>| {
        let mut read = 0;
        let mut piece = [0; TURN / 8];
        std::future::poll_fn(|cx| {
            loop {
                let mut out = ReadBuf::new(&mut piece);
                match Pin::new(&mut *corked).poll_read(cx, &mut out) {
                    Poll::Ready(Ok(())) => read += out.filled().len(),
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    Poll::Pending => return Poll::Ready(read),
                }
            }
        })
        .await
    };
    for _ in 0..3 {
        assert_eq!(turn(&mut corked).await, TURN);
        assert_eq!(turn(&mut corked).await, 0, "until the next turn");
        cork.next_turn();
    }
}

#[test]
fn answers_to_a_guest_that_asks_and_never_listens_are_not_tried_for_ever() {
    let (mut stream, cork) = recorded(Side::Host);
    lock(&cork.0).io.room = 0;
    while write(&mut stream, &ping()).is_ready() {}
    assert!(pull(&cork).is_pending(), "whoever tries again at once goes round and round");
    lock(&cork.0).io.room = usize::MAX;
    assert_eq!(pull(&cork), Poll::Ready(true));
}
