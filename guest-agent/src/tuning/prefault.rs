//! Memory that is at hand for the first execution, touched before the snapshot.

use std::hint::black_box;

/// Most executions need less; a page the kernel has to add costs a clone more than anything that is done with it.
const BYTES: usize = 64 * 1024;

/// Takes and frees it: the allocator keeps it.
pub fn heap() {
    drop(black_box(vec![1_u8; BYTES]));
}
