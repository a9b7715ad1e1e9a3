//! Gives the kernel's random generator bytes no other clone has, and makes it use them at once.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rekindle_protocol::limits::MAX_ENTROPY_BYTES;

/// `struct rand_pool_info` with room for the most we accept.
#[repr(C)]
struct PoolInfo {
    entropy_bits: libc::c_int,
    size: libc::c_int,
    bytes: [u8; MAX_ENTROPY_BYTES],
}

nix::ioctl_write_ptr_bad!(
    /// RNDADDENTROPY: mix bytes in and credit them. Its number encodes the size of a header only.
    add_entropy, nix::request_code_write!(b'R', 0x03, 2 * size_of::<libc::c_int>()), PoolInfo
);
nix::ioctl_none!(
    /// RNDRESEEDCRNG: draw the generator's key from the pool now instead of minutes later.
    reseed, b'R', 0x07
);

/// The kernel's generator.
///
/// # Errors
/// When the device is not there.
pub fn open() -> io::Result<File> {
    File::options().write(true).open("/dev/urandom")
}

/// Credits `entropy` and reseeds. Without the second step clones keep giving the same bytes.
///
/// # Errors
/// When the kernel refuses, which it must not do to PID 1.
pub fn feed(random: &File, entropy: &[u8]) -> io::Result<()> {
    let mut info = PoolInfo {
        entropy_bits: (entropy.len() * 8) as libc::c_int,
        size: entropy.len() as libc::c_int,
        bytes: [0; MAX_ENTROPY_BYTES],
    };
    info.bytes.get_mut(..entropy.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(entropy);
    // SAFETY: `info` is a live `rand_pool_info` whose `size` bytes are within its array.
    // JUSTIFICATION: crediting entropy is possible through this ioctl alone.
    unsafe { add_entropy(random.as_raw_fd(), &info) }?;
    // SAFETY: the call takes no argument.
    // JUSTIFICATION: as above.
    unsafe { reseed(random.as_raw_fd()) }?;
    Ok(())
}
