//! Shortening is exact on any text, cut anywhere, against a reference that sees everything at once.

use super::*;
use crate::limits::MIN_OUTPUT_LIMIT;
use proptest::prelude::*;

/// The rule, written with no regard for memory.
fn reference(bytes: &[u8], limit: usize) -> Collected {
    let chars: Vec<char> = String::from_utf8_lossy(bytes).chars().collect();
    let total = chars.len();
    let text = if total <= limit {
        chars.iter().collect()
    } else {
        let marker = (0..=limit)
            .rev()
            .map(|kept| (kept, format!("\n[... {} characters cut ...]\n", total - kept)))
            .find(|(kept, marker)| kept + marker.len() == limit);
        let (kept, marker) = marker.expect("some number of characters fits");
        let tail = kept / 2;
        let head: String = chars[..kept - tail].iter().collect();
        let tail: String = chars[total - tail..].iter().collect();
        format!("{head}{marker}{tail}")
    };
    Collected { text, truncated: total > limit, total_bytes: bytes.len() as u64, total_chars: total as u64 }
}

fn collect(pieces: &[&[u8]], limit: usize) -> Collected {
    let mut collector = Collector::new(limit);
    for piece in pieces {
        collector.push(piece);
    }
    collector.finish()
}

/// Text of all widths, combining marks, joined emoji, and bytes that are no text.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let unit = prop_oneof![
        4 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        4 => "[a-z\n]{1,12}".prop_map(String::into_bytes),
        2 => Just("e\u{301}".as_bytes().to_vec()),
        2 => Just("👩‍👩‍👧‍👦".as_bytes().to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 1..5),
        1 => Just(vec![0xf0, 0x9f, 0x98]),
        1 => Just(vec![0xed, 0xa0, 0x80]),
        1 => Just(vec![0xc0, 0xaf]),
    ];
    proptest::collection::vec(unit, 0..150).prop_map(|units| units.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn streaming_in_any_pieces_equals_the_reference(
        bytes in bytes(),
        limit in MIN_OUTPUT_LIMIT..MIN_OUTPUT_LIMIT + 80,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in at {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        pieces.push(&bytes[from..]);
        let collected = collect(&pieces, limit);
        prop_assert!(collected.text.chars().count() <= limit);
        prop_assert_eq!(collected, reference(&bytes, limit));
    }

    #[test]
    fn shortening_whole_text_equals_the_reference(text in "\\PC{0,400}", limit in MIN_OUTPUT_LIMIT..200usize) {
        let expected = reference(text.as_bytes(), limit);
        prop_assert_eq!(shorten(&text, limit).unwrap_or(text), expected.text);
    }
}

#[test]
fn every_cut_position_of_invalid_text_is_exact() {
    let unit: &[u8] = b"a\xf0\x9f\x98\x80\xe2\x82\xac\xff\xc3\xa9\xf0\x9f\xcc\x81";
    let bytes = unit.repeat(30);
    for at in 0..=bytes.len() {
        let pieces = [&bytes[..at], &bytes[at..]];
        assert_eq!(collect(&pieces, 120), reference(&bytes, 120), "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(collect(&single, 120), reference(&bytes, 120));
}

#[test]
fn the_limit_counts_characters_and_not_bytes() {
    let text = "😀".repeat(4000);
    let collected = collect(&[text.as_bytes()], 4000);
    assert!(!collected.truncated);
    assert_eq!(collected.text, text);
    let one_more = "😀".repeat(4001);
    let collected = collect(&[one_more.as_bytes()], 4000);
    assert!(collected.truncated);
    assert_eq!(collected.text.chars().count(), 4000);
    assert!(collected.text.starts_with('😀') && collected.text.ends_with('😀'));
    assert!(collected.text.contains("\n[... 30 characters cut ...]\n"), "{}", collected.text);
}

#[test]
fn memory_stays_flat_whatever_is_printed() {
    let mut collector = Collector::new(4000);
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..1000 {
        collector.push(&piece);
    }
    assert!(collector.head.capacity() + collector.tail.capacity() < 128 * 1024);
    let collected = collector.finish();
    assert_eq!(collected.total_chars, 64 * 1024 * 1000);
}
