//! The codec accepts exactly what it writes and nothing that lies about its length.

use super::*;
use crate::wire::{Chunk, Request};

#[tokio::test]
async fn messages_come_out_as_they_went_in() {
    let (mut a, mut b) = tokio::io::duplex(64);
    let sent = Chunk { data: Bytes::from(vec![7u8; 200_000]) };
    let copy = sent.clone();
    let writer = tokio::spawn(async move { write(&mut a, &copy).await });
    let received: Chunk = read(&mut b).await.expect("a message").expect("not the end");
    assert_eq!(received, sent);
    writer.await.expect("the writer ends").expect("the write succeeds");
    assert!(read::<Chunk>(&mut b).await.expect("a clean end").is_none());
}

#[tokio::test]
async fn a_length_beyond_the_limit_is_refused_before_anything_is_allocated() {
    let mut input = &[0xff, 0xff, 0xff, 0xff, 1, 2, 3][..];
    assert!(matches!(read::<Chunk>(&mut input).await, Err(FrameError::TooLarge { .. })));
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_message_is_an_error_and_not_an_end() {
    for cut in 1..9 {
        let whole = encode(&Chunk { data: Bytes::from_static(b"abc") }).expect("it is small");
        let mut input = &whole[..cut.min(whole.len() - 1)];
        assert!(matches!(read::<Chunk>(&mut input).await, Err(FrameError::Truncated)), "cut at {cut}");
    }
}

#[tokio::test]
async fn garbage_of_the_right_length_is_malformed() {
    let mut input = &[0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff][..];
    assert!(matches!(read::<Request>(&mut input).await, Err(FrameError::Malformed(_))));
}

#[test]
fn a_message_beyond_the_limit_is_not_written() {
    let big = Chunk { data: Bytes::from(vec![0; MAX_FRAME_BYTES]) };
    assert!(matches!(encode(&big), Err(FrameError::TooLarge { .. })));
}
