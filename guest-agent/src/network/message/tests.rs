//! Messages byte by byte.

use super::*;

#[test]
fn a_message_has_its_length_its_attributes_theirs_and_all_are_aligned() {
    let mut messages = Messages::default();
    messages.begin(16, 4, &[9, 0, 0, 0]).text(1, "ab").nested(2, |inside| {
        inside.number(3, 7);
    });
    messages.begin(17, 0, &[]);
    let bytes = messages.into_bytes();
    let expected: Vec<u8> = [
        &40u32.to_ne_bytes()[..],
        &16u16.to_ne_bytes(),
        &5u16.to_ne_bytes(),
        &1u32.to_ne_bytes(),
        &[0; 4],
        &[9, 0, 0, 0],
        &7u16.to_ne_bytes(),
        &1u16.to_ne_bytes(),
        b"ab\0\0",
        &12u16.to_ne_bytes(),
        &(2u16 | 0x8000).to_ne_bytes(),
        &8u16.to_ne_bytes(),
        &3u16.to_ne_bytes(),
        &7u32.to_be_bytes(),
        &16u32.to_ne_bytes(),
        &17u16.to_ne_bytes(),
        &1u16.to_ne_bytes(),
        &2u32.to_ne_bytes(),
        &[0; 4],
    ]
    .concat();
    assert_eq!(bytes, expected);
}
