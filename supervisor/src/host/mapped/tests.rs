//! Lines of the kernel, and this process's own memory.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::*;

#[test]
fn a_mapping_is_recognised_by_its_device_and_inode() {
    let line = "7f00a0000000-7f00c0000000 rw-p 00001000 fe:00 4242                       /memory";
    let mapping = Mapped { pid: 7, start: 0x7f00_a000_0000, end: 0x7f00_c000_0000, offset: 0x1000 };
    assert_eq!(Mapped::read(7, line, "fe:00", 4242), Some(mapping));
    assert_eq!(Mapped::read(7, line, "fe:00", 42), None);
    assert_eq!(Mapped::read(7, line, "00:1f", 4242), None, "another file system");
    assert_eq!(Mapped::read(7, "7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]", "fe:00", 4242), None);
    assert_eq!(Mapped::read(7, "", "fe:00", 1), None);
}

#[test]
fn this_programs_own_file_is_mapped_and_touched() {
    let program = std::env::current_exe().unwrap();
    let length = fs::metadata(&program).unwrap().len();
    let mut touched = 0;
    for mapped in Mapped::find(std::process::id(), &program).unwrap() {
        mapped
            .pages(|page, _| {
                assert!(page * PAGE < length);
                touched += 1;
            })
            .unwrap();
    }
    assert!(touched > 0);
}

#[test]
fn pages_are_copied_and_hold_what_they_held() {
    const PAGES: u64 = 64;
    let file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / PAGE) as u8 + 1).collect();
    fs::write(file.path(), &content).unwrap();
    let opened = File::open(file.path()).unwrap();
    let length = NonZeroUsize::new(content.len()).unwrap();
    let (access, kind) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: a new mapping of a file that nobody shortens; it is only read below, while it exists.
    // JUSTIFICATION: it is what a monitor does with a snapshot's memory, and what is tested is that mapping.
    let memory = unsafe { mmap(None, length, access, kind, &opened, 0) }.unwrap();

    let found = Mapped::find(std::process::id(), file.path()).unwrap();
    let [mapped] = found.as_slice() else { panic!("{found:?}") };
    // The last two are none of the file's.
    mapped.copy(&[3, 4, 40, PAGES, u64::MAX]).unwrap();
    let mut own = BTreeMap::new();
    mapped.pages(|page, copied| own.extend([(page, copied)])).unwrap();
    let copied: Vec<u64> = own.iter().filter(|(_, copied)| **copied).map(|(page, _)| *page).collect();
    assert_eq!(copied, [3, 4, 40]);

    // SAFETY: the mapping is that long, nobody writes to it, and it is unmapped only below.
    // JUSTIFICATION: the same.
    let seen = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), content.len()) };
    assert!(seen == content, "what is there has not changed");
    assert!(fs::read(file.path()).unwrap() == content, "nor has the file");
    // SAFETY: nothing refers to it any more.
    // JUSTIFICATION: the same.
    unsafe { munmap(memory, content.len()) }.unwrap();
    assert_eq!(Mapped::find(std::process::id(), file.path()).unwrap(), []);
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let mapped = Mapped { pid: i32::MAX as u32, start: 0x1000, end: 0x2000, offset: 0 };
    assert!(mapped.copy(&[0]).is_err());
    assert!(mapped.pages(|_, _| {}).is_err());
}
