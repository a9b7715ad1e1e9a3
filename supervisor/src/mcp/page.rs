//! One page of a file: what of some bytes is shown as text, and where the next page begins. Pure.

/// Bytes of a character that the cut at either end of a page may have left.
const CUT: usize = 3;

/// What a page shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Page<'a> {
    /// Text, and how many bytes were left out before it to begin with a whole character.
    Text { skipped: usize, text: &'a str },
    /// No text.
    Binary,
}

/// Looks at the bytes of a page. One that is cut out of a file may begin and end within a character.
pub(super) fn page(bytes: &[u8], from_start: bool, to_end: bool) -> Page<'_> {
    let continued = |byte: &&u8| **byte & 0xc0 == 0x80;
    let skipped = if from_start { 0 } else { bytes.iter().take(CUT).take_while(continued).count() };
    let rest = &bytes[skipped..];
    let text = match std::str::from_utf8(rest) {
        Ok(text) => text,
        // The last character goes on after the page.
        Err(error) if error.error_len().is_none() && !to_end => {
            std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Page::Binary,
    };
    if text.contains('\0') { Page::Binary } else { Page::Text { skipped, text } }
}

#[cfg(test)]
mod tests {
    //! What is text.

    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_the_next_page_goes_on_there() {
        let file = "aäö€😀z".as_bytes();
        for size in 4..file.len() {
            let (mut at, mut all) = (0, String::new());
            while at < file.len() {
                let end = (at + size).min(file.len());
                let Page::Text { skipped, text } = page(&file[at..end], at == 0, end == file.len()) else {
                    panic!("it is text")
                };
                assert_eq!(skipped, 0, "a page that goes on where the last one ended");
                all.push_str(text);
                at += text.len();
            }
            assert_eq!(all.as_bytes(), file, "pages of {size}");
        }
    }

    #[test]
    fn a_page_that_begins_within_a_character_leaves_its_rest_out() {
        assert_eq!(page(&"€b".as_bytes()[1..], false, true), Page::Text { skipped: 2, text: "b" });
        assert_eq!(page(&"€b".as_bytes()[1..], true, true), Page::Binary);
    }

    #[test]
    fn what_is_no_text_is_not_shown() {
        assert_eq!(page(b"a\0b", true, true), Page::Binary);
        assert_eq!(page(b"\xff\xfe\xfd\xfc", true, true), Page::Binary);
        assert_eq!(page(b"abc\xe2\x82", true, true), Page::Binary, "half a character at the very end");
        assert_eq!(page(b"abc\xe2\x82", true, false), Page::Text { skipped: 0, text: "abc" });
        assert_eq!(page(b"", true, true), Page::Text { skipped: 0, text: "" });
    }
}
