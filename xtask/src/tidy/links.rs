//! Rule: a relative link in a Markdown page leads to a file that exists, and to a heading that is there.
//!
//! Addresses with a scheme are left alone: nothing here uses the network. Code, fenced or inline, holds no links.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::Source;

/// Complains about links of a page that lead nowhere, with their line.
pub fn check(root: &Path, page: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, target) in targets(&page.text) {
        if let Err(missing) = resolve(root, page, target) {
            complaints.push(format!("{}:{line}: the link `{target}` leads nowhere: {missing}", page.path));
        }
    }
    complaints
}

/// Says what is missing when a target is not there.
fn resolve(root: &Path, page: &Source, target: &str) -> Result<(), String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let here = root.join(&page.path);
    let path = if file.is_empty() { here } else { here.parent().unwrap_or(root).join(file) };
    let whole = path.canonicalize().map_err(|_| format!("there is no {file}"))?;
    if !root.canonicalize().is_ok_and(|root| whole.starts_with(root)) {
        return Err(format!("{file} is outside the checkout"));
    }
    if anchor.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return Ok(());
    }
    let text = if file.is_empty() {
        page.text.clone()
    } else {
        fs::read_to_string(&whole).map_err(|_| format!("{file} cannot be read"))?
    };
    if anchors(&text).iter().any(|known| known == anchor) {
        return Ok(());
    }
    Err(format!("no heading is called #{anchor}"))
}

/// Relative targets with their line, counted from 1: `[text](target)` and `[name]: target`.
pub fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = next_target(rest) {
            rest = &rest[at..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            found.push((number, &rest[..end]));
            rest = &rest[end..];
        }
        if let Some((name, target)) = line.trim_start().split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            found.push((number, target.split_whitespace().next().unwrap_or_default()));
        }
    }
    found.retain(|(_, target)| !target.contains(':'));
    found
}

/// Where the next target begins, past inline code.
fn next_target(line: &str) -> Option<usize> {
    let mut code = false;
    let bytes = line.as_bytes();
    (0..bytes.len()).find_map(|at| {
        if bytes[at] == b'`' {
            code = !code;
        }
        (!code && bytes[at..].starts_with(b"](")).then_some(at + 2)
    })
}

/// The lines outside fenced code, with their number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = HashMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    headings
        .map(|title| {
            let slug = slug(title);
            let again: &mut usize = seen.entry(slug.clone()).or_default();
            *again += 1;
            if *again == 1 { slug } else { format!("{slug}-{}", *again - 1) }
        })
        .collect()
}

fn slug(title: &str) -> String {
    let kept = title.trim().chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests;
