//! Which variable wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Dirs, Installation, NoHome};

fn found(env: &[(&str, &str)], root: bool, installation: &Installation) -> Result<Dirs, NoHome> {
    let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let get = |name: &str| env.iter().find(|(key, _)| key == name).map(|(_, value)| OsString::from(value));
    Dirs::from(get, root, installation)
}

fn dirs(env: &[(&str, &str)], root: bool) -> Result<Dirs, NoHome> {
    found(env, root, &Installation::default())
}

#[test]
fn our_own_variables_win() {
    let found =
        dirs(&[("REKINDLE_DATA", "/d"), ("REKINDLE_CACHE", "/c"), ("HOME", "/h")], true).expect("found");
    assert_eq!((found.data.as_path(), found.cache.as_path()), (Path::new("/d"), Path::new("/c")));
}

#[test]
fn root_keeps_data_with_the_system_and_others_at_home() {
    let home = [("HOME", "/h")];
    assert_eq!(dirs(&home, true).expect("found").data, Path::new("/var/lib/rekindle"));
    assert_eq!(dirs(&home, false).expect("found").data, Path::new("/h/.local/share/rekindle"));
    assert_eq!(dirs(&home, false).expect("found").cache, Path::new("/h/.cache/rekindle"));
    let xdg = [("HOME", "/h"), ("XDG_DATA_HOME", "/x"), ("XDG_CACHE_HOME", "relative")];
    assert_eq!(dirs(&xdg, false).expect("found").data, Path::new("/x/rekindle"));
    assert_eq!(dirs(&xdg, false).expect("found").cache, Path::new("/h/.cache/rekindle"));
}

#[test]
fn without_a_home_the_missing_variable_is_named() {
    assert_eq!(dirs(&[], false), Err(NoHome { variable: "REKINDLE_DATA" }));
    assert_eq!(dirs(&[], true), Err(NoHome { variable: "REKINDLE_CACHE" }));
}

#[test]
fn an_installed_program_needs_no_home_and_looks_into_its_own_share_last() {
    let prefix = tempfile::tempdir().expect("a directory");
    let share = prefix.path().join("share/rekindle");
    std::fs::create_dir_all(&share).expect("made");
    let installation = Installation::of(&prefix.path().join("bin/rekindle"));
    let dirs = found(&[], true, &installation).expect("found");
    assert_eq!(dirs.artifacts(), [PathBuf::from("/var/lib/rekindle/cache"), share.clone()]);
    let templates = dirs.templates();
    let places = [PathBuf::from("/var/lib/rekindle/templates"), "/etc/rekindle/templates".into()];
    assert!(templates.ends_with(&[&places[..], &[share.join("templates")]].concat()), "{templates:?}");
    let named = found(&[("REKINDLE_CACHE", "/c")], true, &installation).expect("found");
    assert_eq!(named.artifacts(), [PathBuf::from("/c"), share]);
}
