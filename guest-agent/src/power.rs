//! Takes the guest down.

use nix::sys::reboot::{RebootMode, reboot};

/// Syncs and stops the guest; where the agent is not the guest's init, only the agent ends.
///
/// "Restart" is what makes both Firecracker and QEMU's microvm exit: neither has a power button to press.
pub fn off(init: bool) -> ! {
    nix::unistd::sync();
    if init {
        let Err(error) = reboot(RebootMode::RB_AUTOBOOT);
        eprintln!("rekindle-agent: reboot: {error}");
    }
    std::process::exit(0)
}
