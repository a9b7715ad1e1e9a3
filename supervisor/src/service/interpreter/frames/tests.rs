//! Streams cut at every place.

use super::*;

fn all(frames: &mut Frames) -> (Vec<u8>, Vec<String>, usize) {
    let (mut printed, mut messages, mut lost) = (Vec::new(), Vec::new(), 0);
    while let Some(frame) = frames.next() {
        match frame {
            Frame::Printed(bytes) => printed.extend_from_slice(&bytes),
            Frame::Message(bytes) => messages.push(String::from_utf8(bytes).expect("text")),
            Frame::TooLong => lost += 1,
        }
    }
    (printed, messages, lost)
}

#[test]
fn messages_are_found_between_what_is_printed_wherever_it_is_cut() {
    let stream = b"one\x1e.{\"a\":1}\ntwo\x1e+{\"b\":\nthree\x1e.2}\n\x1ex\x1e.{}\n";
    for cut in 0..stream.len() {
        let mut frames = Frames::default();
        let (mut printed, mut messages) = (Vec::new(), Vec::new());
        for part in [&stream[..cut], &stream[cut..]] {
            frames.push(part);
            let (more, found, _) = all(&mut frames);
            printed.extend(more);
            messages.extend(found);
        }
        assert_eq!(printed, b"onetwothree\x1ex", "cut at {cut}");
        assert_eq!(messages, [r#"{"a":1}"#, r#"{"b":2}"#, "{}"], "cut at {cut}");
    }
}

#[test]
fn a_piece_without_an_end_was_printed() {
    let mut frames = Frames::default();
    frames.push(b"\x1e.");
    frames.push(&[b'x'; 2 * MAX_PIECE]);
    let (printed, messages, _) = all(&mut frames);
    assert_eq!((printed.len(), messages.len()), (2 + 2 * MAX_PIECE, 0));
    assert!(frames.buffer.is_empty());
}

#[test]
fn no_message_grows_without_bound() {
    let mut frames = Frames::default();
    let piece = [b"\x1e+", &[b'x'; 4000][..], b"\n"].concat();
    let mut lost = 0;
    for _ in 0..2 * MAX_MESSAGE / 4000 + 2 {
        frames.push(&piece);
        lost += all(&mut frames).2;
        assert!(frames.message.len() <= MAX_MESSAGE && frames.buffer.is_empty());
    }
    assert_eq!(lost, 2);
    frames.cut();
    frames.push(b"\x1e.{}\n");
    assert_eq!(all(&mut frames).1, ["{}"]);
}

#[test]
fn characters_that_come_in_parts_are_whole() {
    let text = "aé€😀b";
    for cut in 0..text.len() {
        let mut decoder = Text::default();
        let parts = [decoder.push(&text.as_bytes()[..cut]), decoder.push(&text.as_bytes()[cut..])].concat();
        assert_eq!(parts + &decoder.finish(), text, "cut at {cut}");
    }
    let mut decoder = Text::default();
    assert_eq!(decoder.push(b"\xff\xf0\x9f"), "\u{fffd}");
    assert_eq!(decoder.finish(), "\u{fffd}");
    assert_eq!(decoder.push(b"\x80\x80\x80\x80a"), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}a");
}
