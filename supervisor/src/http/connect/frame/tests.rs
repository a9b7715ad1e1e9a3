//! Frames in every cut, and bytes that are none.

use proptest::prelude::*;

use super::*;
use crate::http::connect::code::Code;

fn frames(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
        bytes.extend_from_slice(message);
    }
    bytes
}

fn take(bytes: &[u8], cuts: &[usize], most: usize) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
    let mut taken = Vec::new();
    let mut decoder = Frames::new(most);
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    for to in cuts.into_iter().chain([bytes.len()]) {
        decoder.push(&bytes[from..to]);
        from = to;
        loop {
            match decoder.next() {
                Ok(Some(message)) => taken.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => return (taken, Err(error)),
            }
        }
    }
    let end = decoder.end();
    (taken, end)
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let (taken, end) = take(&frames(&messages), &cuts, 80);
        prop_assert_eq!(taken, messages);
        prop_assert_eq!(end, Ok(()));
    }

    #[test]
    fn a_stream_cut_short_is_never_whole(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = frames(&messages);
        let bytes = &whole[..cut.index(whole.len())];
        let (taken, end) = take(bytes, &[], 40);
        prop_assert!(taken.len() < messages.len());
        let between = frames(&messages[..taken.len()]).len() == bytes.len();
        prop_assert_eq!(end, if between { Ok(()) } else { Err(FrameError::Truncated) });
    }

    #[test]
    fn no_bytes_are_too_strange(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let (taken, _) = take(&bytes, &cuts, 64);
        prop_assert!(taken.iter().all(|message| message.len() <= 64));
        let whole = take(&bytes, &[], 64);
        prop_assert_eq!(taken, whole.0, "the cuts change nothing");
    }
}

#[test]
fn a_length_is_refused_before_its_bytes_come() {
    let mut decoder = Frames::new(1000);
    decoder.push(&[0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(decoder.next(), Err(FrameError::TooLarge { length: u32::MAX as usize, most: 1000 }));
}

#[test]
fn flags_that_no_request_has_are_refused() {
    for (flags, error) in [
        (1, FrameError::Compressed),
        (2, FrameError::Flags { flags: 2 }),
        (0x80, FrameError::Flags { flags: 0x80 }),
    ] {
        let mut decoder = Frames::new(10);
        decoder.push(&[flags]);
        assert_eq!(decoder.next(), Err(error));
    }
}

#[test]
fn an_answer_is_framed_as_its_reader_expects() {
    assert_eq!(&event(&serde_json::json!({"a": 1}))[..], b"\0\0\0\0\x07{\"a\":1}");
    assert_eq!(&end(None)[..], b"\x02\0\0\0\x02{}");
    let error = ConnectError::new(Code::NotFound, "no");
    let framed = end(Some(&error));
    assert_eq!(&framed[5..], br#"{"error":{"code":"not_found","message":"no"}}"#);
    assert_eq!(framed[..5], [2, 0, 0, 0, (framed.len() - 5) as u8]);
}
