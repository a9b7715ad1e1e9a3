//! Images by their first bytes: what a file is called says nothing about what it is.

/// The media type of an image that models can look at.
pub(super) fn media_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! What is an image.

    use super::*;

    #[test]
    fn four_kinds_are_known_by_their_first_bytes() {
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0\0\x10JFIF"), Some("image/jpeg"));
        assert_eq!(media_type(b"GIF89a.."), Some("image/gif"));
        assert_eq!(media_type(b"GIF87a.."), Some("image/gif"));
        assert_eq!(media_type(b"RIFF\x24\0\0\0WEBPVP8 "), Some("image/webp"));
    }

    #[test]
    fn half_a_head_and_other_files_are_none() {
        for other in
            [&b""[..], b"\x89PNG", b"GIF88a", b"RIFF\x24\0\0\0WAVE", b"RIFF", b"<svg>", b"BM", b"text"]
        {
            assert_eq!(media_type(other), None, "{other:?}");
        }
    }
}
