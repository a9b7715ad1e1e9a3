//! One entry point per decoder, shared by the fuzz targets in `protocol/fuzz` and by `tests/corpus.rs`, so
//! that both throw the same input at the same code. Not part of the crate's interface.

use bytes::Bytes;
use prost::Message;

use crate::limits::{MAX_HELLO_BYTES, MIN_OUTPUT_LIMIT};
use crate::wire::{request::Op, response::Reply};
use crate::{frame, output, preamble, wire};

/// Decodes a frame as a request and as a response; what decodes must survive being written again.
pub fn frame(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    if let Ok(request) = frame::decode_prefixed::<wire::Request>(input.clone()) {
        round_trip(&request);
    }
    if let Ok(response) = frame::decode_prefixed::<wire::Response>(input) {
        round_trip(&response);
    }
}

fn round_trip<M: Message + Default + PartialEq>(message: &M) {
    let Ok(encoded) = frame::encode(message) else { return };
    let again = frame::decode_prefixed::<M>(encoded);
    assert!(again.is_ok_and(|again| again == *message), "a message changed on its way");
}

/// Scans for a preamble with a hello in noise.
pub fn preamble(input: &[u8]) {
    block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(input.len() + 1024);
        if tokio::io::AsyncWriteExt::write_all(&mut ours, input).await.is_err() {
            return;
        }
        if tokio::io::AsyncWriteExt::shutdown(&mut ours).await.is_err() {
            return;
        }
        let welcome = |_: &wire::HelloRequest| Reply::Hello(wire::HelloResponse::default());
        let found = preamble::respond(theirs, welcome).await;
        let expected = (0..input.len()).any(|at| is_hello(&input[at..]));
        assert_eq!(matches!(found, Ok(Some(_))), expected, "a hello was missed or made up");
    });
}

/// Whether a whole preamble with a hello is what `input` starts with.
fn is_hello(input: &[u8]) -> bool {
    let Some(behind) = input.strip_prefix(&preamble::MAGIC) else { return false };
    let Some(message) = behind.get(preamble::NONCE..) else { return false };
    let short =
        message.first_chunk().is_some_and(|length| u32::from_be_bytes(*length) as usize <= MAX_HELLO_BYTES);
    let request = frame::decode_prefixed::<wire::Request>(Bytes::copy_from_slice(message));
    short && matches!(request, Ok(wire::Request { op: Some(Op::Hello(_)) }))
}

/// Feeds a multiplexer a peer that says anything at all, and reads a request from every stream it opens.
/// Returns how many there were, so that a test can tell that the input got that far.
pub fn mux(input: &[u8]) -> usize {
    let mut streams = 0;
    block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (_keep, mut incoming, driver) = crate::mux::session(theirs, crate::mux::Side::Guest);
        let (mut reader, mut writer) = tokio::io::split(ours);
        let feed = async {
            // Errors are the point: the session may end at any byte.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, input).await;
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut writer).await;
        };
        // A peer that does not take what is sent to it ends the session before its own words are heard.
        let mut nowhere = tokio::io::sink();
        let drain = tokio::io::copy(&mut reader, &mut nowhere);
        let accept = async {
            while let Some(mut stream) = incoming.next().await {
                streams += 1;
                let _ = frame::read::<wire::Request>(&mut stream).await;
            }
        };
        let _ = tokio::join!(feed, drain, accept, driver.run());
    });
    streams
}

/// Shortens output: the limit holds and the totals are those of the whole.
pub fn output(input: &[u8]) {
    let (cut, bytes) = input.split_first().map_or((0, input), |(first, rest)| (*first as usize, rest));
    let limit = MIN_OUTPUT_LIMIT + cut;
    let mut collector = output::Collector::new(limit);
    for piece in bytes.chunks(cut.max(1)) {
        collector.push(piece);
    }
    let collected = collector.finish();
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(collected.total_chars, text.chars().count() as u64);
    assert_eq!(collected.text, output::shorten(&text, limit).unwrap_or(text.into_owned()));
    assert!(collected.text.chars().count() <= limit);
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("no runtime for the fuzzer: {error}"),
    }
}
