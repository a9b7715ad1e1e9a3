//! Readers that come early, late and in between.

use super::*;
use OutputStream::{Stderr, Stdout};

/// Everything a reader gets from where it is.
fn read(tail: &Tail, position: &mut Counts) -> (Counts, Vec<u8>, Vec<u8>) {
    let (mut missed, mut stdout, mut stderr) = (Counts::default(), Vec::new(), Vec::new());
    while let Some(next) = tail.next(position) {
        match next {
            Next::Missed(more) => {
                missed.stdout += more.stdout;
                missed.stderr += more.stderr;
            }
            Next::Piece(Stdout, data) => stdout.extend_from_slice(&data),
            Next::Piece(Stderr, data) => stderr.extend_from_slice(&data),
        }
    }
    (missed, stdout, stderr)
}

#[test]
fn a_reader_gets_each_byte_once_in_its_stream_and_order() {
    let mut tail = Tail::default();
    let mut position = Counts::default();
    assert_eq!(tail.next(&mut position), None);
    tail.push(Stdout, b"ab", None);
    tail.push(Stdout, b"c", None);
    tail.push(Stderr, b"!", None);
    assert_eq!(tail.next(&mut position), Some(Next::Piece(Stdout, "abc".into())));
    assert_eq!(tail.next(&mut position), Some(Next::Piece(Stderr, "!".into())));
    assert_eq!(tail.next(&mut position), None);
    tail.push(Stderr, b"?", None);
    assert_eq!(tail.next(&mut position), Some(Next::Piece(Stderr, "?".into())));
    assert_eq!(position, tail.printed());
}

#[test]
fn what_is_kept_is_bounded_and_what_was_missed_is_counted_exactly() {
    let mut tail = Tail::default();
    let mut early = Counts::default();
    tail.push(Stderr, b"first", None);
    assert_eq!(tail.next(&mut early), Some(Next::Piece(Stderr, "first".into())));
    let flood: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    for piece in flood.chunks(7_777) {
        tail.push(Stdout, piece, None);
        assert!(tail.weight() <= TAIL_BYTES);
    }
    for (mut position, seen) in [(Counts::default(), 0), (early, 5)] {
        let (missed, stdout, stderr) = read(&tail, &mut position);
        assert_eq!(missed.stderr + seen, 5);
        assert_eq!(stdout, flood[missed.stdout as usize..], "the end, without a gap");
        assert!(stderr.is_empty());
        assert!(stdout.len() > TAIL_BYTES / 2, "what fits is kept: {}", stdout.len());
        assert_eq!(position, tail.printed());
    }
}

#[test]
fn the_smallest_pieces_cost_no_more_memory_than_the_largest() {
    let mut tail = Tail::default();
    for n in 0..500_000_u32 {
        tail.push(if n % 2 == 0 { Stdout } else { Stderr }, &[n as u8], None);
    }
    assert!(tail.weight() <= TAIL_BYTES);
    let (missed, stdout, stderr) = read(&tail, &mut Counts::default());
    assert_eq!(missed.total() + (stdout.len() + stderr.len()) as u64, 500_000);
    assert!(stdout.len().abs_diff(stderr.len()) <= 1);
}

#[test]
fn a_tail_that_is_let_go_is_missed() {
    let mut tail = Tail::default();
    tail.push(Stdout, b"abc", None);
    tail.shorten(0, None);
    assert_eq!(tail.weight(), 0);
    let mut position = Counts { stdout: 1, stderr: 0 };
    assert_eq!(tail.next(&mut position), Some(Next::Missed(Counts { stdout: 2, stderr: 0 })));
    assert_eq!(tail.next(&mut position), None);
}

#[test]
fn what_a_reader_must_not_miss_stays_until_it_is_read() {
    let mut tail = Tail::default();
    let mut held = Counts::default();
    let piece = vec![b'x'; TAIL_BYTES];
    for _ in 0..3 {
        tail.push(Stdout, &piece, Some(held.total()));
    }
    assert_eq!(read(&tail, &mut held), (Counts::default(), vec![b'x'; 3 * TAIL_BYTES], Vec::new()));
    tail.push(Stdout, b"y", Some(held.total()));
    assert!(tail.weight() <= TAIL_BYTES, "what was read makes room");
    assert_eq!(tail.next(&mut held), Some(Next::Piece(Stdout, "y".into())));
}
