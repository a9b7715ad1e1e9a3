//! How this process's allocator treats memory that is freed.

/// Bytes at the end of a heap that stay, though they are free.
const KEPT: libc::c_int = 4 << 20;
/// From this size on memory is the kernel's own affair, taken and given back each time.
const LARGE: libc::c_int = 1 << 20;

/// Keeps freed memory for the next piece of a transfer. Each is 64 KiB, freed when it has been passed on, and glibc
/// gives the end of a heap back from 128 KiB on: so the kernel would have to find and to zero the same pages again
/// and again, about a thousand for every 16 MiB. Called once, before there are threads.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [(libc::M_TRIM_THRESHOLD, KEPT), (libc::M_MMAP_THRESHOLD, LARGE)] {
        // SAFETY: it takes two integers and changes nothing but what the allocator does later.
        // JUSTIFICATION: glibc's allocator has no other interface to a running program.
        unsafe { libc::mallopt(option, value) };
    }
}
