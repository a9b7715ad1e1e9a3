//! Parts of a URL: what `%` and `+` stand for, and the pairs of a query.

/// Most pairs that are read of one query.
const MAX_PAIRS: usize = 128;

/// The pairs of a query, in its order; `None` when one cannot be read, or there are too many.
pub(super) fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pairs: Option<Vec<_>> = parts
        .take(MAX_PAIRS + 1)
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decode(key, true)?, decode(value, true)?))
        })
        .collect();
    pairs.filter(|pairs| pairs.len() <= MAX_PAIRS)
}

/// One part of a path.
pub(super) fn segment(text: &str) -> Option<String> {
    decode(text, false)
}

/// Text whose bytes may be written as `%` and two digits, and in a query a space as `+`.
fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    //! What is written how.

    use super::*;

    #[test]
    fn a_query_is_pairs_of_decoded_text() {
        let read = |text: &str| pairs(text).expect("a query");
        assert_eq!(read("a=b&c=d+e%2Bf&&g"), [("a", "b"), ("c", "d e+f"), ("g", "")].map(owned));
        assert_eq!(read("metadata=k%3Dv%2526w"), [("metadata", "k=v%26w")].map(owned));
        assert_eq!(read(""), []);
        for wrong in ["a=%", "a=%4", "a=%zz", "%ff=1"] {
            assert_eq!(pairs(wrong), None, "{wrong:?}");
        }
        assert!(pairs(&"a=1&".repeat(MAX_PAIRS)).is_some());
        assert!(pairs(&"a=1&".repeat(MAX_PAIRS + 1)).is_none());
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(segment("a+b%20c").as_deref(), Some("a+b c"));
    }

    fn owned((key, value): (&str, &str)) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }
}
