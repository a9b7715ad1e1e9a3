//! Makes text from a guest or a monitor safe to log and to show: bounded, and without characters that move a
//! terminal's cursor or reverse the reading direction. Used wherever such words leave `agent` and `engine`, except for
//! a program's own output, which is the caller's to interpret.

use std::fmt::Write as _;

/// The text in at most `max` bytes, with every unprintable character spelled out.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let before = out.len();
        if is_treacherous(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
        if out.len() > max {
            out.truncate(before);
            break;
        }
    }
    out
}

/// Control characters, line separators, and the marks that reorder text.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_overrides_are_spelled_out() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d", 100), "a\\u{1b}[2Jb\\nc\\u{202e}d");
    }

    #[test]
    fn the_bound_holds_on_any_text_and_never_splits_a_character() {
        for max in 0..20 {
            for text in
                ["ééééééééééééé", "\u{1b}\u{1b}\u{1b}\u{1b}", "😀😀😀😀😀😀", "plain text that is long"]
            {
                assert!(printable(text, max).len() <= max);
            }
        }
        assert_eq!(printable("éé", 3), "é");
    }
}
