//! The addon: an object with the functions `standby.cjs` cannot write itself.
//!
//! Node-API is looked up when Node loads the library, so that Python can load it, too. A function of an addon shows in
//! no stack trace, which is why `wrapEmit` is here.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use crate::{exit, proc_view};

/// A handle of Node-API: an environment, a value, or what a function was called with.
type Handle = *mut c_void;
type Callback = extern "C" fn(Handle, Handle) -> Handle;
const OK: c_int = 0;
/// Most events have fewer arguments; the rest would be cut off.
const MOST_ARGUMENTS: usize = 16;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The part of Node-API that is used. A function that is not there is not called: the addon then exports nothing.
#[derive(Clone, Copy)]
struct Api {
    create_function:
        unsafe extern "C" fn(Handle, *const c_char, usize, Callback, *mut c_void, *mut Handle) -> c_int,
    set_property: unsafe extern "C" fn(Handle, Handle, *const c_char, Handle) -> c_int,
    callback_info:
        unsafe extern "C" fn(Handle, Handle, *mut usize, *mut Handle, *mut Handle, *mut *mut c_void) -> c_int,
    buffer_info: unsafe extern "C" fn(Handle, Handle, *mut *mut u8, *mut usize) -> c_int,
    call: unsafe extern "C" fn(Handle, Handle, Handle, usize, *const Handle, *mut Handle) -> c_int,
    create_reference: unsafe extern "C" fn(Handle, Handle, u32, *mut Handle) -> c_int,
    reference_value: unsafe extern "C" fn(Handle, Handle, *mut Handle) -> c_int,
}

static mut API: Option<Api> = None;
/// The functions `wrapEmit` was given: Node's own `emit`, and what is called after it.
static mut EMIT: Handle = ptr::null_mut();
static mut AFTER: Handle = ptr::null_mut();

/// Called by Node when the addon is loaded: what it returns is what the addon exports.
// SAFETY: no other symbol of this name is in this library.
// JUSTIFICATION: Node looks it up by its name.
#[unsafe(no_mangle)]
pub extern "C" fn napi_register_module_v1(env: Handle, exports: Handle) -> Handle {
    exit::standing_by();
    // SAFETY: Node loads an addon on its main thread, once.
    // JUSTIFICATION: Node-API is an interface of C.
    unsafe {
        API = look_up();
        if let Some(api) = API {
            for (name, function) in [
                (c"exit", end as Callback),
                (c"reveal", reveal),
                (c"showArguments", show_arguments),
                (c"showEnvironment", show_environment),
                (c"wrapEmit", wrap_emit),
            ] {
                let mut value = ptr::null_mut();
                let made = (api.create_function)(
                    env,
                    name.as_ptr(),
                    name.count_bytes(),
                    function,
                    ptr::null_mut(),
                    &raw mut value,
                );
                if made == OK {
                    (api.set_property)(env, exports, name.as_ptr(), value);
                }
            }
        }
    }
    exports
}

fn look_up() -> Option<Api> {
    let find = |name: &CStr| {
        // SAFETY: a null library means every one that is loaded; the name ends in a zero byte.
        // JUSTIFICATION: linked against them, the library could be loaded by Node alone.
        let found = unsafe { dlsym(ptr::null_mut(), name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    // SAFETY: the types are those of Node-API's header, which never change.
    // JUSTIFICATION: as above.
    unsafe {
        Some(Api {
            create_function: core::mem::transmute::<*mut c_void, _>(find(c"napi_create_function")?),
            set_property: core::mem::transmute::<*mut c_void, _>(find(c"napi_set_named_property")?),
            callback_info: core::mem::transmute::<*mut c_void, _>(find(c"napi_get_cb_info")?),
            buffer_info: core::mem::transmute::<*mut c_void, _>(find(c"napi_get_buffer_info")?),
            call: core::mem::transmute::<*mut c_void, _>(find(c"napi_call_function")?),
            create_reference: core::mem::transmute::<*mut c_void, _>(find(c"napi_create_reference")?),
            reference_value: core::mem::transmute::<*mut c_void, _>(find(c"napi_get_reference_value")?),
        })
    }
}

/// What a function was called with.
struct Call {
    api: Api,
    this: Handle,
    arguments: [Handle; MOST_ARGUMENTS],
    count: usize,
}

fn read(env: Handle, info: Handle) -> Option<Call> {
    // SAFETY: the table is written once, before any function is there to be called; the array is as large as it says.
    // JUSTIFICATION: as above.
    unsafe {
        let api = API?;
        let (mut this, mut count) = (ptr::null_mut(), MOST_ARGUMENTS);
        let mut arguments = [ptr::null_mut(); MOST_ARGUMENTS];
        let first = &raw mut arguments as *mut Handle;
        let read = (api.callback_info)(env, info, &raw mut count, first, &raw mut this, ptr::null_mut());
        (read == OK).then_some(Call {
            api,
            this,
            arguments,
            count: if count < MOST_ARGUMENTS { count } else { MOST_ARGUMENTS },
        })
    }
}

/// `exit()`: ends the process with code 0, at once. Node's own `reallyExit` waits for the engine's threads, takes down
/// OpenSSL and runs the destructors of every library, which changes nothing that a program or its caller could see.
extern "C" fn end(_env: Handle, _info: Handle) -> Handle {
    exit::rekindle_exit(0)
}

/// `reveal()`: see [`proc_view::reveal`].
extern "C" fn reveal(_env: Handle, _info: Handle) -> Handle {
    proc_view::reveal();
    ptr::null_mut()
}

/// `showArguments(buffer)`: what `/proc/self/cmdline` holds from now on.
extern "C" fn show_arguments(env: Handle, info: Handle) -> Handle {
    show(env, info, proc_view::ARGUMENTS)
}

/// `showEnvironment(buffer)`: what `/proc/self/environ` holds from now on.
extern "C" fn show_environment(env: Handle, info: Handle) -> Handle {
    show(env, info, proc_view::ENVIRONMENT)
}

fn show(env: Handle, info: Handle, options: [core::ffi::c_ulong; 2]) -> Handle {
    if let Some(Call { api, arguments, .. }) = read(env, info) {
        let (mut text, mut size) = (ptr::null_mut(), 0);
        // SAFETY: Node says where the buffer is, and it stays there during the call.
        // JUSTIFICATION: as above.
        unsafe {
            if (api.buffer_info)(env, arguments[0], &raw mut text, &raw mut size) == OK {
                proc_view::show(options, text, size);
            }
        }
    }
    ptr::null_mut()
}

/// `wrapEmit(emit, after)`: a function that calls `emit` as it was called itself and then `after` with the same
/// arguments. Returns what `emit` returns.
extern "C" fn wrap_emit(env: Handle, info: Handle) -> Handle {
    let Some(Call { api, arguments, .. }) = read(env, info) else { return ptr::null_mut() };
    let mut function = ptr::null_mut();
    // SAFETY: called once, on the main thread; a reference keeps its value for ever.
    // JUSTIFICATION: as above.
    unsafe {
        (api.create_reference)(env, arguments[0], 1, &raw mut EMIT);
        (api.create_reference)(env, arguments[1], 1, &raw mut AFTER);
        let name = c"emit";
        (api.create_function)(
            env,
            name.as_ptr(),
            name.count_bytes(),
            emit,
            ptr::null_mut(),
            &raw mut function,
        );
    }
    function
}

extern "C" fn emit(env: Handle, info: Handle) -> Handle {
    let Some(Call { api, this, arguments, count }) = read(env, info) else { return ptr::null_mut() };
    let (mut original, mut after, mut heard, mut unused) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: both references were made before this function, and the handles are of this call. A function that threw
    // leaves its exception to be thrown on when this returns.
    // JUSTIFICATION: as above.
    unsafe {
        (api.reference_value)(env, EMIT, &raw mut original);
        if (api.call)(env, this, original, count, &raw const arguments as *const Handle, &raw mut heard) == OK
        {
            (api.reference_value)(env, AFTER, &raw mut after);
            (api.call)(env, this, after, count, &raw const arguments as *const Handle, &raw mut unused);
        }
    }
    heard
}
