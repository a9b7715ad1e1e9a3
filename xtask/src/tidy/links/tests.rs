//! Which links are followed, and which are found broken.

use std::fs;

use super::super::source;
use super::*;

fn complaints(page: &str) -> Vec<String> {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir(root.path().join("docs")).expect("made");
    let other = "# Other page\n\n## What `it` does, and why\n\n## Twice\n\n## Twice\n";
    fs::write(root.path().join("docs/other.md"), other).expect("written");
    fs::write(root.path().join("docs/page.md"), page).expect("written");
    check(root.path(), &source("docs/page.md", page))
}

#[test]
fn a_link_to_a_file_that_is_not_there_is_found() {
    let found = complaints("fine\n\nsee [this](gone.md) and [that](other.md)\n");
    assert_eq!(found, ["docs/page.md:3: the link `gone.md` leads nowhere: there is no gone.md"]);
    assert_eq!(complaints("[name]: gone.md\n").len(), 1);
    assert_eq!(complaints("[![image](gone.png)](other.md)\n").len(), 1);
}

#[test]
fn a_link_to_a_heading_that_is_not_there_is_found() {
    assert_eq!(complaints("[one](other.md#what-it-does-and-why) [two](other.md#twice-1)").len(), 0);
    assert_eq!(complaints("[one](other.md#what-it-did)").len(), 1);
    assert_eq!(complaints("# Here\n[one](#here) [two](#there)").len(), 1);
}

#[test]
fn a_link_out_of_the_checkout_is_found() {
    assert_eq!(complaints("[host](../../../../../../../../../etc)").len(), 1);
}

#[test]
fn addresses_and_code_are_left_alone() {
    assert_eq!(complaints("[a](https://example.org/gone.md) [b](mailto:a@b.example)").len(), 0);
    assert_eq!(complaints("`[a](gone.md)`\n\n```md\n[b](gone.md)\n```\n").len(), 0);
}
