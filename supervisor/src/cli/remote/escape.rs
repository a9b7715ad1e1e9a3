//! Makes words from elsewhere safe to show in tables and messages: a guest chooses its file names, and one that
//! moves the cursor or turns the reading direction must not reach a terminal. Never used for a program's output.

use std::fmt::Write as _;

/// The text with every unprintable character spelled out.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, c);
    }
    out
}

/// The bytes as text, what is no UTF-8 spelled out as `\xNN`. Backslashes are doubled, so that no name can
/// look like another's spelling.
pub fn bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                out.push('\\');
            }
            push(&mut out, c);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn push(out: &mut String, c: char) {
    if is_treacherous(c) {
        let _ = write!(out, "{}", c.escape_default());
    } else {
        out.push(c);
    }
}

/// Control characters, line separators, characters without a width, and the marks that reorder text.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    //! What reaches a terminal.

    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(text("a\u{1b}[2Jb\nc\r\u{9b}1m"), "a\\u{1b}[2Jb\\nc\\r\\u{9b}1m");
        assert_eq!(text("txt.\u{202e}gpj\u{200b}"), "txt.\\u{202e}gpj\\u{200b}");
        let all: Vec<u8> = (0..=255).collect();
        assert!(!bytes(&all).chars().any(char::is_control));
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert_eq!(text("grüße 日本.txt"), "grüße 日本.txt");
        assert_eq!(bytes("grüße 日本.txt".as_bytes()), "grüße 日本.txt");
    }

    #[test]
    fn bytes_that_are_no_text_are_spelled_out_and_cannot_be_imitated() {
        assert_eq!(bytes(b"a\xffb"), "a\\xffb");
        assert_eq!(bytes(b"a\\xffb"), "a\\\\xffb");
    }
}
