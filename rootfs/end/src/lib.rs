//! An addon of Node: one function that ends the process with exit code 0, at once.
//!
//! Node itself has none. Its `process.reallyExit` waits for the engine's threads, takes down OpenSSL and runs the
//! destructors of every library, which takes longer than most programs and changes nothing that a program or
//! its caller could see: the kernel takes all of it back anyway, after the caller has the code. What C code has
//! printed is flushed.

#![no_std]

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

/// A handle of Node-API: an environment, a value, or what a function was called with.
type Handle = *mut c_void;

unsafe extern "C" {
    fn napi_create_function(
        env: Handle,
        name: *const c_char,
        length: usize,
        function: extern "C" fn(Handle, Handle) -> Handle,
        data: *mut c_void,
        result: *mut Handle,
    ) -> c_int;
    fn fflush(stream: *mut c_void) -> c_int;
    fn _exit(code: c_int) -> !;
}

/// Called by Node when the addon is loaded: what it returns is what the addon exports.
// SAFETY: no other symbol of this name is in this library.
// JUSTIFICATION: Node looks it up by its name.
#[unsafe(no_mangle)]
pub extern "C" fn napi_register_module_v1(env: Handle, exports: Handle) -> Handle {
    rekindle_leave::waiting();
    let mut function = ptr::null_mut();
    // SAFETY: `env` is Node's own, an empty name has no characters, and `function` outlives the call.
    // JUSTIFICATION: Node-API is an interface of C.
    match unsafe { napi_create_function(env, c"".as_ptr(), 0, end, ptr::null_mut(), &raw mut function) } {
        0 => function,
        _ => exports,
    }
}

extern "C" fn end(_env: Handle, _call: Handle) -> Handle {
    // SAFETY: a null stream means all of them; the process has nothing left to do.
    // JUSTIFICATION: the C library's buffers are its own, and Node offers no other way out.
    unsafe {
        fflush(ptr::null_mut());
        rekindle_leave::leave(0)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: as above. Nothing here panics.
    // JUSTIFICATION: as above.
    unsafe { _exit(70) }
}
