//! Which names are names.

use super::TemplateName;

#[test]
fn plain_words_are_names() {
    for name in ["minimal", "python-node", "3", "a-b-c-4", &"x".repeat(63)] {
        assert_eq!(name.parse::<TemplateName>().expect(name).as_str(), name);
    }
}

#[test]
fn anything_that_could_leave_its_directory_is_refused() {
    for name in ["", ".", "..", "a/b", "/a", "-a", "A", "a b", "a\0", "ä", "a.toml", &"x".repeat(64)] {
        name.parse::<TemplateName>().expect_err(name);
    }
}

#[test]
fn the_template_that_nobody_named_is_the_fullest_that_is_there() {
    let with = |there: &[&str]| super::default_template(|name| there.contains(&name.as_str())).to_string();
    assert_eq!(with(&["minimal", "python-node"]), "python-node");
    assert_eq!(with(&["minimal", "other"]), "minimal");
    assert_eq!(with(&[]), "python-node");
}
