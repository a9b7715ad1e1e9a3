//! The agent's own program text in huge pages, before its guest is frozen.
//!
//! The pages of the program were read as they were needed and lie wherever there was room, many of them beside pages
//! that every clone writes to. A host can give a guest two mebibytes, a huge page, in one go, but not where a page among them has
//! become the clone's own: there each page costs an exit of its own. So the parts of the program that are only read are
//! copied into huge pages of their own, and the copies take the places of the originals
//! (docs/performance.md).

use std::fs;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use nix::sys::mman::{MRemapFlags, MapFlags, ProtFlags, mmap_anonymous, mprotect, mremap};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// A piece of the program that nobody writes to.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    place: Range<usize>,
    protection: ProtFlags,
}

/// Moves what is not there yet into huge pages.
///
/// # Errors
/// When the kernel refuses; every part is then where it was, or already moved, and works as before.
pub fn move_text() -> io::Result<()> {
    let parts = parts(&fs::read_to_string("/proc/self/maps")?, move_text as *const () as usize);
    let size = parts.iter().map(|part| part.place.len()).sum::<usize>().next_multiple_of(HUGE);
    // As much again as it takes to begin where a huge page does.
    let Ok(room) = (size + HUGE).try_into() else { return Ok(()) };
    if parts.is_empty() {
        return Ok(());
    }
    let (readable, private) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: the mapping is new and anonymous: nothing that exists is touched.
    // JUSTIFICATION: memory is laid out by page here, below everything safe Rust knows of.
    let base = unsafe { mmap_anonymous(None, room, readable, private | MapFlags::MAP_NORESERVE) }?;
    let start = base.map_addr(|at| at.saturating_add(at.get().next_multiple_of(HUGE) - at.get()));
    // What the parts leave of the last huge page stays mapped: given back, it would be somebody's who writes to it.
    let mut at = start;
    let mut copies = Vec::with_capacity(parts.len());
    for part in parts {
        let length = part.place.len();
        copies.push((part.place.start as *mut _, length, part.protection, at));
        // SAFETY: the parts together are no larger than the room, and each is readable memory of this process.
        at = unsafe {
            std::ptr::copy_nonoverlapping(part.place.start as *const u8, at.as_ptr().cast(), length);
            at.byte_add(length)
        };
    }
    // Once and here: memory that is only marked for huge pages has the kernel look at it for ever after. Where the
    // kernel has no huge pages, small ones do.
    // SAFETY: the range is part of the new mapping, and keeps what it holds.
    // JUSTIFICATION: no crate in use knows this advice.
    unsafe { libc::madvise(start.as_ptr(), size, libc::MADV_COLLAPSE) };
    let flags = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
    for (place, length, protection, copy) in copies {
        // SAFETY: what takes the place of a part is the same bytes with the same rights, and the kernel exchanges them
        // while no thread can look. Nothing refers to the copy's own address.
        unsafe {
            mprotect(copy, length, protection)?;
            mremap(copy, length, length, flags, NonNull::new(place))?;
        }
    }
    Ok(())
}

/// The parts of the program's file in `maps` that nobody writes to. The program is the file `inside` lies in.
fn parts(maps: &str, inside: usize) -> Vec<Part> {
    let lines: Vec<_> = maps.lines().filter_map(line).collect();
    let Some((_, _, program)) = lines.iter().find(|(place, _, _)| place.contains(&inside)) else {
        return Vec::new();
    };
    lines
        .iter()
        .filter(|(_, rights, file)| file == program && !file.ends_with(" 0") && rights.starts_with('r'))
        .filter(|(_, rights, _)| !rights.contains('w'))
        .map(|(place, rights, _)| {
            let execute = if rights.contains('x') { ProtFlags::PROT_EXEC } else { ProtFlags::empty() };
            Part { place: place.clone(), protection: ProtFlags::PROT_READ | execute }
        })
        .collect()
}

/// Where a mapping is, what may be done there, and of which file it is: its device and number.
fn line(line: &str) -> Option<(Range<usize>, &str, String)> {
    let mut words = line.split_ascii_whitespace();
    let (place, rights, _offset) = (words.next()?, words.next()?, words.next()?);
    let (device, number) = (words.next()?, words.next()?);
    let (start, end) = place.split_once('-')?;
    let number_of = |text| usize::from_str_radix(text, 16).ok();
    Some((number_of(start)?..number_of(end)?, rights, format!("{device} {number}")))
}

#[cfg(test)]
mod tests;
