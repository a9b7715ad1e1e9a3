//! Which parts of a program are moved, and that the program goes on.

use super::*;

const MAPS: &str = "\
7f0000000000-7f000006b000 r--p 00000000 fe:00 42                 /sbin/rekindle-agent
7f000006b000-7f00001c8000 r-xp 0006a000 fe:00 42                 /sbin/rekindle-agent
7f00001c8000-7f00001d4000 r--p 001c6000 fe:00 42                 /sbin/rekindle-agent
7f00001d4000-7f00001dd000 rw-p 001d1000 fe:00 42                 /sbin/rekindle-agent
7f00001dd000-7f0000200000 rw-p 00000000 00:00 0                  [heap]
7f1000000000-7f1000020000 r-xp 00000000 fe:01 42                 /usr/lib/other
7ffc0de27000-7ffc0de29000 r-xp 00000000 00:00 0                  [vdso]
";

#[test]
fn what_is_only_read_of_the_program_is_told_from_everything_else() {
    let read = ProtFlags::PROT_READ;
    let expected = [
        Part { place: 0x7f00_0000_0000..0x7f00_0006_b000, protection: read },
        Part { place: 0x7f00_0006_b000..0x7f00_001c_8000, protection: read | ProtFlags::PROT_EXEC },
        Part { place: 0x7f00_001c_8000..0x7f00_001d_4000, protection: read },
    ];
    assert_eq!(parts(MAPS, 0x7f00_0007_0000), expected);
}

#[test]
fn a_program_that_is_moved_is_left_alone() {
    let moved = MAPS.replace("r-xp 0006a000 fe:00 42", "r-xp 00000000 00:00 0 ");
    assert_eq!(parts(&moved, 0x7f00_0007_0000), []);
    assert_eq!(parts(MAPS, 0x1000), []);
}

/// The tests run while their own program is moved, in as many threads as there are.
#[test]
fn a_moved_program_goes_on() {
    let here = a_moved_program_goes_on as *const () as usize;
    let own = |maps: String| parts(&maps, here).len();
    let maps = || fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(own(maps()) > 0, "{}", maps());
    move_text().expect("moved");
    assert_eq!(own(maps()), 0, "{}", maps());
    move_text().expect("moved once more");
    assert_eq!("a word".to_uppercase(), "A WORD");
    std::panic::catch_unwind(|| panic!("unwinds")).expect_err("a panic is still caught");
}
