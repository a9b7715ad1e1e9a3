//! Words of a guest's, a server's or a caller's as part of one line, where they can neither end it nor be without end.

/// The longest that is kept of one, in characters.
const LONGEST: usize = 1_000;

/// The text in one line: control characters escaped, the end cut off where it is too long.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (at, character) in text.chars().enumerate() {
        if at == LONGEST {
            line.push('…');
            break;
        }
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// A path of a guest's, which need not be text.
pub(super) fn path(bytes: &[u8]) -> String {
    one_line(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    //! One line stays one.

    use super::*;

    #[test]
    fn nobody_adds_a_line_or_writes_without_end() {
        assert_eq!(one_line("a\nhint: b\u{1b}[2J\u{2028}"), "a\\nhint: b\\u{1b}[2J\\u{2028}");
        assert_eq!(one_line(&"x".repeat(5_000)).chars().count(), LONGEST + 1);
        assert_eq!(path(b"/a\xff\n"), "/a\u{fffd}\\n");
    }
}
