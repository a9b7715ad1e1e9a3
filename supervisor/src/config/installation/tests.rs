//! What lies beside a program decides what it is told to say.

use std::fs;

use super::Installation;

#[test]
fn a_program_beside_its_share_is_installed_and_never_speaks_of_cargo() {
    let dir = tempfile::tempdir().expect("a directory");
    let share = dir.path().join("share/rekindle");
    fs::create_dir_all(&share).expect("made");
    let installed = Installation::of(&dir.path().join("bin/rekindle"));
    assert_eq!(installed.share(), Some(share.as_path()));
    let names = ["minimal", "python-node", "own"].map(|name| name.parse().expect("a name"));
    let images = names.iter().map(|name| installed.image_hint(name));
    for hint in images.chain([installed.kernel_hint(), installed.recipe_guide()]) {
        assert!(!hint.contains("cargo") && !hint.contains("snapshots/"), "{hint}");
    }
    assert_eq!(installed.image_hint(&names[1]), "install the package rekindle-python-node");
    assert!(installed.recipe_guide().ends_with("share/rekindle/templates/minimal.toml"));
}

#[test]
fn a_program_of_a_checkout_is_not_installed_and_may_speak_of_cargo() {
    let dir = tempfile::tempdir().expect("a directory");
    // Not even where a folder of that name is beside it by chance.
    fs::create_dir_all(dir.path().join("target/share/rekindle")).expect("made");
    for program in ["target/debug/rekindle", "bin/rekindle"] {
        let found = Installation::of(&dir.path().join(program));
        assert_eq!(found, Installation::default(), "{program}");
        assert_eq!(found.kernel_hint(), "run `cargo xtask kernel`");
    }
}
