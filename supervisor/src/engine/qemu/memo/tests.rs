//! A program is believed for as long as it is the one that was asked.

use super::*;

fn setup() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, program) = (dir.path().join("cache/qemu.json"), dir.path().join("qemu"));
    fs::write(&program, "one").expect("written");
    (dir, place, program)
}

#[test]
fn what_a_program_said_is_known_until_it_changes() {
    let (dir, place, program) = setup();
    assert_eq!(recall(&place, &program), None);
    keep(&place, &program, "QEMU emulator version 7.2.22");
    assert_eq!(recall(&place, &program).as_deref(), Some("QEMU emulator version 7.2.22"));
    // Another program of the same size in its place, with its times.
    let other = dir.path().join("other");
    fs::write(&other, "two").expect("written");
    let times = fs::metadata(&program).expect("there").modified().expect("a time");
    let file = fs::File::options().write(true).open(&other).expect("opened");
    file.set_modified(times).expect("set");
    fs::rename(&other, &program).expect("renamed");
    assert_eq!(recall(&place, &program), None);
}

#[test]
fn a_memo_that_makes_no_sense_is_no_memo() {
    let (_dir, place, program) = setup();
    keep(&place, &program, "QEMU emulator version 7.2.22");
    for nonsense in ["", "{}", "not json"] {
        fs::write(&place, nonsense).expect("written");
        assert_eq!(recall(&place, &program), None, "{nonsense:?}");
    }
    fs::write(&place, vec![b' '; 20_000]).expect("written");
    assert_eq!(recall(&place, &program), None);
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let (_dir, _, program) = setup();
    keep(Path::new("/proc/nowhere/qemu.json"), &program, "QEMU emulator version 7.2.22");
    assert_eq!(recall(Path::new("/proc/nowhere/qemu.json"), &program), None);
}
