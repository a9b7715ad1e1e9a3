//! Paths of the guest's files, as bytes.

/// Where relative paths start.
pub(crate) const HOME: &[u8] = b"/home/user";

/// The path from the root, without `.`, `..` and doubled slashes.
pub(crate) fn absolute(path: &[u8]) -> Vec<u8> {
    let joined = if path.starts_with(b"/") { path.to_vec() } else { [HOME, b"/", path].concat() };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in joined.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut path = vec![b'/'];
    path.extend(parts.join(&b'/'));
    path
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// What the paths below a directory begin with.
pub(crate) fn prefix(path: &[u8]) -> Vec<u8> {
    if path == b"/" { path.to_vec() } else { [path, b"/"].concat() }
}
