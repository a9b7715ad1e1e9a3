//! A session starts cleanly whatever is left in the pipe.

use super::*;
use proptest::prelude::*;

fn hello() -> wire::HelloRequest {
    wire::HelloRequest { version: Some(crate::VERSION), program: "host".into() }
}

fn welcome(_: &wire::HelloRequest) -> Reply {
    Reply::Hello(wire::HelloResponse { program: "guest".into(), ..Default::default() })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn both_sides_agree_on_a_clean_stream() {
    let (host, guest) = tokio::io::duplex(1024);
    let guest = tokio::spawn(async move {
        let mut io = respond(guest, welcome).await.expect("no failure").expect("no end");
        io.write_all(b"from guest").await.expect("written");
        let mut got = [0; 9];
        io.read_exact(&mut got).await.expect("read");
        got
    });
    let (answer, mut io) = initiate(host, hello(), soon()).await.expect("a session");
    assert_eq!(answer, welcome(&hello()));
    io.write_all(b"from host").await.expect("written");
    let mut got = [0; 10];
    io.read_exact(&mut got).await.expect("read");
    assert_eq!(&got, b"from guest");
    assert_eq!(&guest.await.expect("the guest ends"), b"from host");
}

#[tokio::test(start_paused = true)]
async fn a_guest_stuck_in_an_old_frame_is_pushed_back_into_step() {
    let (host, mut guest) = tokio::io::duplex(1024);
    let guest = tokio::spawn(async move {
        // An old session that still waits for a whole frame body swallows the first preamble.
        let mut body = vec![0; crate::mux::MAX_BODY_BYTES];
        guest.read_exact(&mut body).await.expect("the filler fills it");
        guest.write_all(&[0xff; 3000]).await.expect("stale bytes go out");
        respond(guest, welcome).await.expect("no failure").is_some()
    });
    initiate(host, hello(), soon()).await.expect("a session");
    assert!(guest.await.expect("the guest ends"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_abandoned_try_is_not_taken_for_the_newest() {
    let (host, guest) = tokio::io::duplex(4 * FILLER);
    let guest = tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(guest);
        let mut first = BytesMut::new();
        reader.read_buf(&mut first).await.expect("the first try");
        // Too late: by now the host has sent its second try.
        tokio::time::sleep(FIRST_PATIENCE + FIRST_PATIENCE / 2).await;
        let stale = Reply::Hello(wire::HelloResponse { program: "stale".into(), ..Default::default() });
        let mut late = BytesMut::new();
        let nonce = first[MAGIC.len()..][..NONCE].try_into().expect("a nonce");
        append(&mut late, nonce, &wire::Response { reply: Some(stale) });
        writer.write_all(&late).await.expect("the late answer");
        let line = tokio::io::join(reader, writer);
        let mut io = respond(line, welcome).await.expect("no failure").expect("no end");
        io.write_all(b"!").await.expect("written");
    });
    let (answer, mut io) = initiate(host, hello(), soon()).await.expect("a session");
    assert_eq!(answer, welcome(&hello()));
    assert_eq!(io.read_u8().await.expect("one byte"), b'!', "nothing of the first answer is left over");
    guest.await.expect("the guest ends");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_deadline_and_a_closed_stream_at_once() {
    let (host, _guest) = tokio::io::duplex(64);
    assert!(matches!(initiate(host, hello(), soon()).await, Err(PreambleError::NoAnswer { .. })));
    let (host, guest) = tokio::io::duplex(64);
    drop(guest);
    assert!(matches!(
        initiate(host, hello(), soon()).await,
        Err(PreambleError::Closed | PreambleError::Io(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_flood_without_a_preamble_is_cut_off() {
    let (host, mut guest) = tokio::io::duplex(1024 * 1024);
    tokio::spawn(async move {
        let noise = vec![0xffu8; 1024 * 1024];
        while guest.write_all(&noise).await.is_ok() {}
    });
    assert!(matches!(initiate(host, hello(), soon()).await, Err(PreambleError::Flooded)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_hello_starts_no_session_and_the_next_one_may() {
    let (mut host, guest) = tokio::io::duplex(1024);
    let guest = tokio::spawn(async move {
        let judge = |hello: &wire::HelloRequest| match hello.program.as_str() {
            "host" => welcome(hello),
            _ => Reply::Error(wire::Error { message: "who?".into(), ..Default::default() }),
        };
        respond(guest, judge).await.expect("no failure").is_some()
    });
    let stranger = wire::HelloRequest { program: "stranger".into(), ..hello() };
    let (answer, _) = initiate(&mut host, stranger, soon()).await.expect("an answer");
    assert!(matches!(&answer, Reply::Error(error) if error.message == "who?"), "{answer:?}");
    let (answer, _) = initiate(&mut host, hello(), soon()).await.expect("an answer");
    assert_eq!(answer, welcome(&hello()));
    assert!(guest.await.expect("the guest ends"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_only_echoes_is_told_from_one_that_is_silent() {
    let (host, mut guest) = tokio::io::duplex(4 * FILLER);
    tokio::spawn(async move {
        let mut opening = BytesMut::new();
        while guest.read_buf(&mut opening).await.is_ok_and(|n| n > 0) {
            let at = opening.windows(MAGIC.len()).rposition(|window| window == MAGIC).unwrap_or(0);
            let _ = guest.write_all(&opening[at..][..MAGIC.len() + NONCE]).await;
        }
    });
    let answer = initiate(host, hello(), soon()).await;
    assert!(matches!(answer, Err(PreambleError::NoHello { .. })), "{answer:?}");
}

proptest! {
    #[test]
    fn a_preamble_is_found_behind_any_noise_and_in_any_pieces(
        noise in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(b'R'), any::<u8>()], 0..200),
        cut in proptest::option::of(1usize..50),
        nonce in any::<[u8; NONCE]>(),
        rest in proptest::collection::vec(any::<u8>(), 0..20),
        piece in 1usize..40,
    ) {
        prop_assume!(!noise.windows(MAGIC.len()).any(|window| window == MAGIC));
        let request = wire::Request { op: Some(Op::Hello(hello())) };
        let mut input = BytesMut::from(&noise[..]);
        // A host that vanished in the middle of its own.
        if let Some(cut) = cut {
            let whole = input.len();
            append(&mut input, nonce, &request);
            input.truncate((whole + cut).min(input.len() - 1));
        }
        append(&mut input, nonce, &request);
        input.extend_from_slice(&rest);
        let mut scanner = Scanner::default();
        let mut found = None;
        let mut unread = &input[..];
        while found.is_none() {
            let (now, later) = unread.split_at(piece.min(unread.len()));
            prop_assert!(!now.is_empty(), "the preamble was missed");
            scanner.buffer.extend_from_slice(now);
            unread = later;
            found = scanner.next(|nonce, request: wire::Request| request.op.map(|op| (nonce, op)));
        }
        prop_assert_eq!(found, Some((nonce, Op::Hello(hello()))));
        let mut after = scanner.buffer.to_vec();
        after.extend_from_slice(unread);
        prop_assert_eq!(after, rest);
    }
}
