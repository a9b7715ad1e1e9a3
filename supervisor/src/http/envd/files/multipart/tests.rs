//! Forms in every cut, and bodies that are none.

use futures::stream;
use proptest::prelude::*;
use tokio::io::AsyncReadExt as _;

use super::*;

type Parts = Vec<(String, Option<String>, Vec<u8>)>;

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, file, content) in parts {
        bytes.extend_from_slice(b"--XX\r\nContent-Disposition: form-data; name=\"");
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'"');
        if let Some(file) = file {
            bytes.extend_from_slice(format!("; filename=\"{file}\"").as_bytes());
        }
        bytes.extend_from_slice(b"\r\nContent-Type: text/plain\r\n\r\n");
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"--XX--\r\n");
    bytes
}

/// Everything in a form; an error in place of what could not be read.
async fn read(bytes: &[u8], step: usize, broken: bool) -> (Parts, Result<(), ()>) {
    let mut pieces: Vec<io::Result<Vec<u8>>> = bytes.chunks(step).map(|piece| Ok(piece.to_vec())).collect();
    if broken {
        pieces.push(Err(io::Error::other("gone")));
    }
    let mut form = Multipart::new(Body::from_stream(stream::iter(pieces)), "XX");
    let mut parts = Vec::new();
    loop {
        match form.part().await {
            Ok(Some(part)) => {
                let mut content = Vec::new();
                if form.content().read_to_end(&mut content).await.is_err() {
                    return (parts, Err(()));
                }
                parts.push((part.name, part.file_name, content));
            }
            Ok(None) => return (parts, Ok(())),
            Err(_) => return (parts, Err(())),
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

proptest! {
    #[test]
    fn parts_come_out_as_they_went_in_however_they_are_cut(
        content in prop::collection::vec(prop::sample::select(b"a\r\n-X".to_vec()), 0..60),
        step in 1usize..40,
    ) {
        prop_assume!(!content.windows(6).any(|window| window == b"\r\n--XX") && !content.starts_with(b"--XX"));
        let bytes = form(&[("file", Some("a.txt"), &content), ("other", None, b"")]);
        let (parts, end) = block_on(read(&bytes, step, false));
        prop_assert_eq!(end, Ok(()));
        let right = vec![
            ("file".to_owned(), Some("a.txt".to_owned()), content),
            ("other".to_owned(), None, Vec::new()),
        ];
        prop_assert_eq!(parts, right);
    }

    #[test]
    fn a_form_cut_short_never_gives_its_last_part(cut in any::<prop::sample::Index>(), broken: bool) {
        let bytes = form(&[("file", Some("a"), b"one"), ("file", Some("b"), b"two")]);
        let whole = bytes.len() - b"\r\n".len();
        let (parts, end) = block_on(read(&bytes[..cut.index(whole)], 7, broken));
        prop_assert!(parts.len() < 2 && end.is_err());
    }

    #[test]
    fn no_bytes_are_too_strange(
        bytes in prop::collection::vec(prop::sample::select(b"ab-X\r\n:;=\"%\0".to_vec()), 0..200),
        step in 1usize..40,
    ) {
        let _ = block_on(read(&bytes, step, false));
    }
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let mut bytes = b"--XX\r\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'a', 10 * MAX_HEADERS));
    let mut form = Multipart::new(Body::from(bytes), "XX");
    assert!(form.part().await.is_err());
    assert_eq!(form.part().await.ok(), Some(None), "nothing follows an error");
}

#[test]
fn names_are_read_in_every_form() {
    let named = |line: &str| part(line.as_bytes()).map(|part| (part.name, part.file_name));
    let right = |name: &str, file: Option<&str>| Some((name.to_owned(), file.map(str::to_owned)));
    let line = "Content-Disposition: form-data; name=\"file\"; filename=\"/tmp/a b;c=.txt\"";
    assert_eq!(named(line), right("file", Some("/tmp/a b;c=.txt")));
    assert_eq!(named("content-disposition:form-data;name=file"), right("file", None));
    let escaped = r#"Content-Disposition: form-data; name="file"; filename="a%22b\\c\"d%0A.txt""#;
    assert_eq!(named(escaped), right("file", Some("a\"b\\c\"d\n.txt")));
    assert_eq!(
        named("Content-Disposition: form-data; filename=\"é\"; name=\"file\""),
        right("file", Some("é"))
    );
    for wrong in
        ["", "Content-Disposition: attachment; name=\"a\"", "Content-Disposition: form-data; name=\"a"]
    {
        assert_eq!(named(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_boundary_is_short_and_printable() {
    assert_eq!(boundary("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
    assert_eq!(boundary("Multipart/Form-Data; charset=utf-8; boundary=\"a b\"").as_deref(), Some("a b"));
    let long = format!("multipart/form-data; boundary={}", "a".repeat(71));
    for wrong in
        ["", "multipart/form-data", "multipart/mixed; boundary=a", "multipart/form-data; boundary=", &long]
    {
        assert_eq!(boundary(wrong), None, "{wrong:?}");
    }
}
