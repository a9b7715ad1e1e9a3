//! The functions that this library stands before: those of the C library.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The one that comes after this library.
const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;

/// A function of the C library.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

pub static CLOCK_GETTIME: Next = Next::of(c"clock_gettime");
pub static COND_TIMEDWAIT: Next = Next::of(c"pthread_cond_timedwait");
pub static COND_CLOCKWAIT: Next = Next::of(c"pthread_cond_clockwait");
pub static MUTEX_TIMEDLOCK: Next = Next::of(c"pthread_mutex_timedlock");
pub static MUTEX_CLOCKLOCK: Next = Next::of(c"pthread_mutex_clocklock");
pub static SEM_TIMEDWAIT: Next = Next::of(c"sem_timedwait");
pub static SEM_CLOCKWAIT: Next = Next::of(c"sem_clockwait");

/// Finds all of them: a program may not be able to look for them where it needs them, such as in a signal handler.
pub fn find_all() {
    let all = [
        &CLOCK_GETTIME,
        &COND_TIMEDWAIT,
        &COND_CLOCKWAIT,
        &MUTEX_TIMEDLOCK,
        &MUTEX_CLOCKLOCK,
        &SEM_TIMEDWAIT,
        &SEM_CLOCKWAIT,
    ];
    for function in all {
        function.find();
    }
}

impl Next {
    const fn of(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, if it has been found before.
    pub fn found(&self) -> *mut c_void {
        self.found.load(Relaxed)
    }

    /// Its address; null where the C library has none.
    pub fn find(&self) -> *mut c_void {
        if self.found().is_null() {
            // SAFETY: the name ends in a zero byte, and the handle is one of those that the loader knows.
            // JUSTIFICATION: what stands behind a function is known to the loader alone.
            self.found.store(unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) }, Relaxed);
        }
        self.found()
    }
}
