//! Operations: a method and a template of paths, and whether a request is one of them. Pure.
//!
//! A path is taken as it is written. What could be read in two ways, here and at the upstream, is no path at all: an
//! empty segment, `.` and `..`, an escape that stands for a separator, a dot or another escape, a parameter after `;`.

use hyper::Method;

use super::service::InvalidService;
use super::spec::OperationSpec;

/// Most bytes of a path.
const MAX_PATH: usize = 2048;
/// Most bytes of an operation's name.
const MAX_NAME: usize = 63;

/// An operation that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub(super) name: String,
    pub(super) method: Method,
    path: PathTemplate,
    pub(super) max_body: u64,
    pub(super) cost: u64,
}

impl Operation {
    pub(super) fn new(spec: &OperationSpec) -> Result<Self, InvalidService> {
        let OperationSpec { name, method, path, max_body_bytes, cost } = spec;
        if !is_word(name) || name.len() > MAX_NAME {
            return Err(InvalidService::OperationName { name: name.clone() });
        }
        let method = match Method::from_bytes(method.as_bytes()) {
            Ok(known @ (Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH)) => known,
            Ok(known @ (Method::DELETE | Method::OPTIONS)) => known,
            _ => return Err(InvalidService::Method { operation: name.clone() }),
        };
        let path =
            PathTemplate::parse(path).ok_or_else(|| InvalidService::Path { operation: name.clone() })?;
        Ok(Self { name: name.clone(), method, path, max_body: *max_body_bytes, cost: *cost })
    }

    /// Whether two operations take the very same requests.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.method == other.method && self.path == other.path
    }
}

/// The first operation that a request is.
pub fn find<'a>(operations: &'a [Operation], method: &Method, path: &str) -> Option<&'a Operation> {
    let segments = segments(path)?;
    operations.iter().find(|operation| operation.method == *method && operation.path.matches(&segments))
}

/// Whether a name has 1 or more of a-z, 0-9, `-` and `_`.
pub(super) fn is_word(name: &str) -> bool {
    let inside = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(inside)
}

/// Whether a path is one of a template's; not for a template that is none.
pub fn is_path_of(template: &str, path: &str) -> bool {
    PathTemplate::parse(template).zip(segments(path)).is_some_and(|(template, path)| template.matches(&path))
}

/// What paths look like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathTemplate(Vec<Segment>);

/// One segment: a literal text, or anything between two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Open { before: String, after: String },
}

impl PathTemplate {
    fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PATH {
            return None;
        }
        let count = text.matches('/').count();
        let segments = text.strip_prefix('/')?.split('/').enumerate();
        let segment = |(at, text): (usize, &str)| Segment::parse(text, at + 1 == count);
        segments.map(segment).collect::<Option<_>>().map(Self)
    }

    fn matches(&self, segments: &[&str]) -> bool {
        let pairs = self.0.iter().zip(segments);
        self.0.len() == segments.len() && pairs.into_iter().all(|(segment, text)| segment.matches(text))
    }
}

impl Segment {
    fn parse(text: &str, last: bool) -> Option<Self> {
        let Some((before, rest)) = text.split_once('{') else {
            let literal = is_plain(text) && !text.contains('%') && (last || !text.is_empty());
            return literal.then(|| Self::Literal(text.to_owned()));
        };
        let (name, after) = rest.split_once('}')?;
        let literals = [before, after].iter().all(|part| is_plain(part) && !part.contains('%'));
        let open = literals && is_word(name);
        open.then(|| Self::Open { before: before.to_owned(), after: after.to_owned() })
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == text,
            Self::Open { before, after } => {
                let open =
                    text.strip_prefix(before.as_str()).and_then(|text| text.strip_suffix(after.as_str()));
                // What ends the open part must not be in it: an upstream may look for the first or the last of them.
                let ends = after.chars().next();
                open.is_some_and(|open| !open.is_empty() && !ends.is_some_and(|end| open.contains(end)))
            }
        }
    }
}

/// The segments of a request's path; `None` when it could be read in two ways.
fn segments(path: &str) -> Option<Vec<&str>> {
    if path.len() > MAX_PATH {
        return None;
    }
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let (last, others) = segments.split_last()?;
    let fine = is_plain(last) && others.iter().all(|segment| !segment.is_empty() && is_plain(segment));
    fine.then_some(segments)
}

/// Whether a segment can be read in one way only.
fn is_plain(segment: &str) -> bool {
    if matches!(segment, "." | "..") {
        return false;
    }
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let fine = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => may_be_escaped((high * 16 + low) as u8),
                    _ => false,
                }
            }
            b'-' | b'.' | b'_' | b'~' | b':' | b'@' => true,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' => true,
            byte => byte.is_ascii_alphanumeric(),
        };
        if !fine {
            return false;
        }
    }
    true
}

/// Whether an escape may stand for a byte: not for one that would mean something else once it is read, nor for one that
/// needs none.
fn may_be_escaped(byte: u8) -> bool {
    let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    !unreserved && !byte.is_ascii_control() && !matches!(byte, b'/' | b'\\' | b'%' | b';')
}

#[cfg(test)]
mod tests {
    //! What is an operation, and what only looks like one.

    use super::*;

    fn operation(name: &str, method: &str, path: &str) -> Operation {
        let spec = OperationSpec {
            name: name.into(),
            method: method.into(),
            path: path.into(),
            max_body_bytes: 10,
            cost: 1,
        };
        Operation::new(&spec).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn found(method: &str, path: &str) -> Option<String> {
        let operations = [
            operation("root", "GET", "/"),
            operation("chat", "POST", "/v1/chat/completions"),
            operation("list", "GET", "/v1/items"),
            operation("special", "GET", "/v1/items/special"),
            operation("item", "GET", "/v1/items/{id}"),
            operation("part", "GET", "/v1/items/{id}/parts/{part}"),
            operation("generate", "POST", "/v1beta/models/{model}:generateContent"),
            operation("index", "GET", "/simple/{project}/"),
        ];
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        find(&operations, &method, path).map(|operation| operation.name.clone())
    }

    #[test]
    fn a_request_is_the_first_operation_whose_method_and_path_it_has() {
        for (method, path, name) in [
            ("GET", "/", "root"),
            ("POST", "/v1/chat/completions", "chat"),
            ("GET", "/v1/items", "list"),
            ("GET", "/v1/items/special", "special"),
            ("GET", "/v1/items/7", "item"),
            ("GET", "/v1/items/a%20b%40c%C3%A4", "item"),
            ("GET", "/v1/items/...", "item"),
            ("GET", "/v1/items/7/parts/x", "part"),
            ("POST", "/v1beta/models/gemini-2.0:generateContent", "generate"),
            ("GET", "/simple/requests/", "index"),
        ] {
            assert_eq!(found(method, path).as_deref(), Some(name), "{method} {path}");
        }
    }

    #[test]
    fn what_another_reader_could_take_for_another_path_is_no_operation() {
        for (method, path) in [
            ("GET", "/v1/chat/completions"),
            ("DELETE", "/v1/items/7"),
            ("GET", "/v1/items/"),
            ("GET", "/v1//items"),
            ("GET", "//v1/items"),
            ("GET", "/v1/items/7/"),
            ("GET", "/v1/items/.."),
            ("GET", "/v1/items/../items"),
            ("GET", "/v1/./items"),
            ("GET", "/v1/items/%2e%2e"),
            ("GET", "/v1/items/%2E%2e"),
            ("GET", "/v1/items/a%2fb"),
            ("GET", "/v1/items/a%2Fparts%2Fx"),
            ("GET", "/v1/items/a%5cb"),
            ("GET", "/v1/items/a\\b"),
            ("GET", "/v1/items/%252e%252e%252f"),
            ("GET", "/v1/items/a%00"),
            ("GET", "/v1/items/a%0d%0ax"),
            ("GET", "/v1/items/a;x=1"),
            ("GET", "/v1/items/..;"),
            ("GET", "/v1/items/a%3bx"),
            ("GET", "/v1/items/a%2"),
            ("GET", "/v1/items/a%zz"),
            ("GET", "/v1/items/ä"),
            ("GET", "/v1/%69tems"),
            ("GET", "/V1/items"),
            ("GET", "v1/items"),
            ("GET", "*"),
            ("GET", ""),
            ("POST", "/v1beta/models/:generateContent"),
            ("POST", "/v1beta/models/x:delete:generateContent"),
            ("POST", "/v1beta/models/x:generateContentMore"),
        ] {
            assert_eq!(found(method, path), None, "{method} {path}");
        }
        assert_eq!(found("GET", &format!("/v1/items/{}", "x".repeat(3000))), None);
    }

    #[test]
    fn what_an_operator_cannot_mean_is_refused() {
        let spec = |method: &str, path: &str| OperationSpec {
            name: "x".into(),
            method: method.into(),
            path: path.into(),
            max_body_bytes: 1,
            cost: 1,
        };
        for path in
            ["", "v1", "/a//b", "/a/../b", "/a?b", "/a%20b", "/{}", "/{a}{b}", "/{a", "/a}", "/{A}", "/a b"]
        {
            let read = Operation::new(&spec("GET", path));
            assert!(matches!(read, Err(InvalidService::Path { .. })), "{path}: {read:?}");
        }
        for method in ["get", "CONNECT", "TRACE", "", "G T", "BREW"] {
            let read = Operation::new(&spec(method, "/a"));
            assert!(matches!(read, Err(InvalidService::Method { .. })), "{method}: {read:?}");
        }
        for name in ["", "A", "a/b", "*", "a b"] {
            let spec = OperationSpec { name: name.into(), ..spec("GET", "/a") };
            assert!(matches!(Operation::new(&spec), Err(InvalidService::OperationName { .. })), "{name}");
        }
    }
}
