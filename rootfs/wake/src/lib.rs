//! An extension of Python: where a parked copy waits for its execution, the last steps before its program, how it
//! is called, and its end.
//!
//! The package `rekindle_warm` can do all of this itself, and does where this file cannot be loaded. But in a fresh
//! clone nothing has run yet, and emulated every piece of code costs most when it runs first: the same steps
//! through the interpreter are ten times as many pieces as these few calls.
//!
//! Only the stable part of Python's interface is used, so one file fits every Python 3.

#![no_std]

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::ptr;

/// A pointer to one of Python's objects.
type Object = *mut c_void;

/// Steps a copy can fail at, numbered as in the agent's exec/child.rs.
const USER: u8 = 3;
const DIRECTORY: u8 = 4;

/// What `prctl` is asked for.
const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_MM: c_int = 35;
const PR_SET_MM_ARG_END: c_ulong = 9;
const EINTR: c_int = 4;

/// How a request begins that brings nothing but a program, behind its length; its other two strings are empty.
const GO: &[u8] = b"go\0\0\0";
/// The program's arguments up to its source.
const ARGUMENTS: &[u8] = b"python3\0-c\0";
/// Bytes of a request's length.
const LENGTH: usize = 4;
/// The longest source, which is the longest argument of a program.
const LONGEST: usize = 128 * 1024;
/// Room for the longest request of this kind.
const ROOM: usize = LENGTH + GO.len() + LONGEST + 1;
/// Python's marks for a function that takes a tuple and for the version of its stable interface.
const METH_VARARGS: c_int = 1;
const ABI: c_int = 3;

unsafe extern "C" {
    fn read(fd: c_int, buffer: *mut u8, size: usize) -> isize;
    fn write(fd: c_int, buffer: *const u8, size: usize) -> isize;
    fn close(fd: c_int) -> c_int;
    fn chdir(path: *const c_char) -> c_int;
    fn setresuid(real: u32, effective: u32, saved: u32) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn __errno_location() -> *mut c_int;
    fn _exit(code: c_int) -> !;
    fn PyModule_Create2(definition: *mut Definition, abi: c_int) -> Object;
    fn PyArg_ParseTuple(arguments: Object, format: *const c_char, ...) -> c_int;
    fn PyBytes_FromStringAndSize(text: *const u8, size: isize) -> Object;
    fn PyUnicode_DecodeUTF8(text: *const u8, size: isize, errors: *const c_char) -> Object;
    fn PyErr_CheckSignals() -> c_int;
    fn PyTuple_Size(tuple: Object) -> isize;
    fn PyTuple_GetItem(tuple: Object, index: isize) -> Object;
    fn PyTuple_GetSlice(tuple: Object, low: isize, high: isize) -> Object;
    fn PyObject_CallObject(function: Object, arguments: Object) -> Object;
    fn Py_GetRecursionLimit() -> c_int;
    fn Py_DecRef(object: Object);
    fn PyLong_FromLong(number: c_long) -> Object;
    fn fflush(stream: *mut c_void) -> c_int;
}

/// `PyMethodDef`.
#[repr(C)]
struct Method {
    name: *const c_char,
    function: Option<unsafe extern "C" fn(Object, Object) -> Object>,
    flags: c_int,
    doc: *const c_char,
}

/// `PyModuleDef`.
#[repr(C)]
struct Definition {
    references: isize,
    kind: *mut c_void,
    init: *mut c_void,
    index: isize,
    copy: *mut c_void,
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    methods: *mut Method,
    slots: *mut c_void,
    traverse: *mut c_void,
    clear: *mut c_void,
    free: *mut c_void,
}

impl Method {
    const fn new(name: &'static CStr, function: unsafe extern "C" fn(Object, Object) -> Object) -> Self {
        Self { name: name.as_ptr(), function: Some(function), flags: METH_VARARGS, doc: ptr::null() }
    }
}

static mut METHODS: [Method; 5] = [
    Method::new(c"wait", wait),
    Method::new(c"place", place),
    Method::new(c"alone", alone),
    Method::new(c"end", end),
    Method { name: ptr::null(), function: None, flags: 0, doc: ptr::null() },
];

static mut DEFINITION: Definition = Definition {
    references: 1,
    kind: ptr::null_mut(),
    init: ptr::null_mut(),
    index: 0,
    copy: ptr::null_mut(),
    name: c"wake".as_ptr(),
    doc: ptr::null(),
    size: -1,
    methods: &raw mut METHODS as *mut Method,
    slots: ptr::null_mut(),
    traverse: ptr::null_mut(),
    clear: ptr::null_mut(),
    free: ptr::null_mut(),
};

/// What was read. The interpreter lets nobody else in here while one waits.
static mut REQUEST: [u8; ROOM] = [0; ROOM];

/// Where the interpreter keeps its current frame, and how many more there may be.
static mut FRAME: *mut *mut c_void = ptr::null_mut();
static mut LEFT: *mut c_int = ptr::null_mut();

/// Called by Python when the module is imported.
// SAFETY: no other symbol of this name is in this library.
// JUSTIFICATION: Python looks it up by its name.
#[unsafe(no_mangle)]
pub extern "C" fn PyInit_wake() -> Object {
    // SAFETY: the definition is never moved, and its texts and tables end as Python wants them to.
    // JUSTIFICATION: Python's interface is one of C.
    unsafe { PyModule_Create2(&raw mut DEFINITION, ABI) }
}

/// `wait(requests, answers, user, directory, arguments)`: waits for a request.
///
/// One that brings nothing but a program is carried out: the process shows it as its arguments, becomes the user,
/// enters the directory and hangs up. Then it returns the source, a `str`. Of every other request, and of any if
/// `user` is negative, it returns what has been read so far, as `bytes`.
///
/// # Safety
/// To be called by Python. `arguments` is the address of room for [`ARGUMENTS`], [`LONGEST`] bytes and a zero, where
/// the process's arguments begin.
unsafe extern "C" fn wait(_module: Object, given: Object) -> Object {
    let (mut requests, mut answers): (c_int, c_int) = (-1, -1);
    let (mut user, mut arguments): (c_long, c_ulong) = (-1, 0);
    let mut directory: *const c_char = ptr::null();
    // SAFETY: each pointer is to a live value of the type its letter means. Python calls this with its lock held,
    // so the buffer is used here alone. `arguments` is as the caller promises.
    // JUSTIFICATION: system calls and Python's interface are both of C.
    unsafe {
        let read_all = PyArg_ParseTuple(
            given,
            c"iilyk".as_ptr(),
            &raw mut requests,
            &raw mut answers,
            &raw mut user,
            &raw mut directory,
            &raw mut arguments,
        );
        if read_all == 0 {
            return ptr::null_mut();
        }
        rekindle_leave::waiting();
        let request = &raw mut REQUEST as *mut u8;
        let mut have = 0;
        loop {
            let n = read(requests, request.add(have), ROOM - have);
            if n < 0 && *__errno_location() == EINTR {
                if PyErr_CheckSignals() != 0 {
                    return ptr::null_mut();
                }
                continue;
            }
            if n <= 0 {
                // The agent is gone.
                _exit(0);
            }
            have += n as usize;
            if have < LENGTH + GO.len() {
                continue;
            }
            let whole = LENGTH + u32::from_le(request.cast::<u32>().read_unaligned()) as usize;
            let go = (0..GO.len()).all(|i| *request.add(LENGTH + i) == GO[i]);
            if user < 0 || !go || whole > ROOM || whole <= LENGTH + GO.len() {
                return PyBytes_FromStringAndSize(request, have as isize);
            }
            if have < whole {
                continue;
            }
            let source = request.add(LENGTH + GO.len());
            let size = whole - LENGTH - GO.len() - 1;
            show(arguments as *mut u8, source, size);
            if let Err(step) = become_user(user as u32, directory) {
                fail(answers, step);
            }
            close(requests);
            // Last: the agent takes it for the start of the program.
            close(answers);
            return PyUnicode_DecodeUTF8(source, size as isize, c"surrogateescape".as_ptr());
        }
    }
}

/// `place(frame, left)`: where the interpreter keeps its current frame and the number of frames left, as addresses
/// that `rekindle_warm/frames.py` has found and checked.
///
/// # Safety
/// To be called by Python, with addresses that stay what they are.
unsafe extern "C" fn place(_module: Object, given: Object) -> Object {
    let (mut frame, mut left): (c_ulong, c_ulong) = (0, 0);
    // SAFETY: as in `wait`.
    // JUSTIFICATION: as in `wait`.
    unsafe {
        if PyArg_ParseTuple(given, c"kk".as_ptr(), &raw mut frame, &raw mut left) == 0 {
            return ptr::null_mut();
        }
        (FRAME, LEFT) = (frame as *mut *mut c_void, left as *mut c_int);
        PyLong_FromLong(0)
    }
}

/// `alone(function, ...)`: calls `function` with no frame below it, as the function of this name in
/// `rekindle_warm/frames.py` does.
///
/// # Safety
/// To be called by Python, after `place`.
unsafe extern "C" fn alone(_module: Object, given: Object) -> Object {
    // SAFETY: the addresses are the interpreter's own; what was there is there again when this returns.
    // JUSTIFICATION: the interpreter offers no way to hide a frame.
    unsafe {
        let arguments = PyTuple_GetSlice(given, 1, PyTuple_Size(given));
        let function = PyTuple_GetItem(given, 0);
        if arguments.is_null() || function.is_null() {
            return ptr::null_mut();
        }
        let (below, depth) = (*FRAME, Py_GetRecursionLimit() - *LEFT);
        *LEFT += depth;
        *FRAME = ptr::null_mut();
        let result = PyObject_CallObject(function, arguments);
        *FRAME = below;
        *LEFT -= depth;
        Py_DecRef(arguments);
        result
    }
}

/// `end(code)`: ends the process. What C code has printed is flushed; no library's destructors run, and the memory is
/// taken down after the caller has the code.
///
/// # Safety
/// To be called by Python.
unsafe extern "C" fn end(_module: Object, given: Object) -> Object {
    let mut code: c_int = 0;
    // SAFETY: as in `wait`; a null stream means all of them.
    // JUSTIFICATION: as in `wait`.
    unsafe {
        if PyArg_ParseTuple(given, c"i".as_ptr(), &raw mut code) == 0 {
            return ptr::null_mut();
        }
        fflush(ptr::null_mut());
        rekindle_leave::leave(code)
    }
}

/// Shows the program as this process's arguments.
///
/// # Safety
/// See [`wait`]; `source` is `size` bytes and one that is zero.
unsafe fn show(arguments: *mut u8, source: *const u8, size: usize) {
    // SAFETY: there is room, as the caller promises.
    // JUSTIFICATION: what a process shows of itself is its memory.
    unsafe {
        ptr::copy_nonoverlapping(ARGUMENTS.as_ptr(), arguments, ARGUMENTS.len());
        ptr::copy_nonoverlapping(source, arguments.add(ARGUMENTS.len()), size + 1);
        let end = arguments as c_ulong + (ARGUMENTS.len() + size + 1) as c_ulong;
        // A kernel that refuses shows the forker's: nothing depends on it.
        prctl(PR_SET_MM, PR_SET_MM_ARG_END, end, 0 as c_ulong, 0 as c_ulong);
    }
}

/// Becomes the user and enters the directory with the user's rights.
///
/// # Safety
/// `directory` is a text that ends in a zero byte.
unsafe fn become_user(user: u32, directory: *const c_char) -> Result<(), u8> {
    let zero: c_ulong = 0;
    // SAFETY: numbers, and a text the caller vouches for.
    // JUSTIFICATION: these are system calls. The first is the C library's, which changes every thread.
    unsafe {
        if setresuid(user, user, user) != 0 {
            return Err(USER);
        }
        // Changing the user hides a process from it, as if it held secrets. It holds none.
        prctl(PR_SET_DUMPABLE, 1 as c_ulong, zero, zero, zero);
        if chdir(directory) != 0 {
            return Err(DIRECTORY);
        }
    }
    Ok(())
}

/// Tells the agent why there is no program, and ends.
fn fail(answers: c_int, step: u8) -> ! {
    // SAFETY: the verdict is live; the process has nothing left to do.
    // JUSTIFICATION: as above.
    unsafe {
        let error = (*__errno_location()).to_ne_bytes();
        let verdict = [step, error[0], error[1], error[2], error[3]];
        write(answers, verdict.as_ptr(), verdict.len());
        _exit(127)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the call takes a number. Nothing here panics.
    // JUSTIFICATION: as above.
    unsafe { _exit(70) }
}
