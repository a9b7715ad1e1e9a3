"""Runs source text as `python3 -c` would, and ends as it would.

The end is written out here because the interpreter's own would take down everything that was
loaded beforehand, and copy most of the shared memory doing so. What a program can see of it is kept:
threads are waited for, `atexit` runs, finalizers of the program's own objects run, output is flushed.
"""

import _frozen_importlib as bootstrap
import atexit
import builtins
import gc
import io
import linecache
import os
import signal
import sys
import types
import weakref

from . import frames, native

_FLUSH_FAILED = 120


def new_main():
    """A `__main__` as a fresh interpreter has it."""
    main = types.ModuleType("__main__")
    main.__loader__ = bootstrap.BuiltinImporter
    main.__spec__ = None
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__builtins__ = builtins
    sys.modules["__main__"] = main


def open_streams():
    """Standard streams over the descriptors 0, 1 and 2, as the interpreter makes them at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        write = number > 0
        unbuffered = write and old.write_through
        raw = buffer = io.open(number, "wb" if write else "rb", 0 if unbuffered else -1, closefd=False)
        if not unbuffered:
            raw = buffer.raw
        raw.name = f"<{name}>"
        stream = io.TextIOWrapper(
            buffer,
            encoding=old.encoding,
            errors=old.errors,
            newline="\n",
            line_buffering=not unbuffered and (raw.isatty() or number == 2),
            write_through=old.write_through,
        )
        stream.mode = "w" if write else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(source, kept):
    """Runs `source` and ends the process. `kept` are the ids of the modules that were there before it."""
    failure = None
    try:
        code = compile(source + "\n", "<string>", "exec", dont_inherit=True)
        if hasattr(linecache, "_register_code"):
            linecache._interactive_cache.clear()
            linecache._register_code(code, source + "\n", "<string>")
        frames.alone(exec, code, vars(sys.modules["__main__"]))
    except BaseException as error:
        failure = error
    status = _report(failure) if failure is not None else 0
    # As the interpreter looks at it: a subclass is an exception like any other.
    interrupted = type(failure) is KeyboardInterrupt
    del failure
    status = _finish(status, kept)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    # Not through `exit`: it would run the destructors of every library that was loaded beforehand.
    native.end(status)


def _strip(error):
    """Removes our own frames from a traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    error.__traceback__ = trace


_OWN_FILES = {frames._find.__code__.co_filename, run.__code__.co_filename}


def _report(error):
    """Says what ended the program, and the exit code that follows."""
    _strip(error)
    if isinstance(error, SystemExit):
        return _exit_code(error.code)
    sys.last_exc = error
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        _write("sys.excepthook is missing\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
        return 1
    try:
        frames.alone(hook, type(error), error, error.__traceback__)
    except SystemExit as ended:
        return _exit_code(ended.code)
    except BaseException as other:
        _strip(other)
        _write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(other), other, other.__traceback__)
        _write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _exit_code(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code if -(2**63) <= code < 2**63 else -1
    _write(f"{code}\n")
    return 1


def _write(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass


def _finish(status, kept):
    """Brings the program to its end, in the interpreter's order. Whatever may run code of the program is called with
    no frame of ours below it."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            frames.alone(threading._shutdown)
        except BaseException as error:
            _strip(error)
            _write("Exception ignored on threading shutdown:\n")
            sys.__excepthook__(type(error), error, error.__traceback__)
    frames.alone(atexit._run_exitfuncs)
    failed = _flush()
    frames.alone(gc.collect)
    _take_down(kept)
    _close_files()
    failed = _flush() or failed
    return _FLUSH_FAILED if failed and status == 0 else status & 0xFF


def _flush():
    failed = False
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None or getattr(stream, "closed", False):
            continue
        try:
            stream.flush()
        except Exception as error:
            if name == "stdout":
                failed = True
                _write(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
    return failed


def _take_down(kept):
    """Lets go of the program's own modules, so that finalizers of what they hold run."""
    names, modules, alive = vars(sys), sys.modules, []
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if name in names:
            del names[name]
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    for name in list(modules):
        module = modules[name]
        if id(module) not in kept:
            if isinstance(module, types.ModuleType):
                alive.append(weakref.ref(module))
            module = None
            frames.alone(modules.__setitem__, name, None)
    module = None
    frames.alone(gc.collect)
    while alive:
        module = alive.pop()()
        if module is not None:
            _clear(vars(module))
    module = None


def _clear(names):
    """Empties a module: names with one underscore first, then the others."""
    for private in (True, False):
        for name in list(names):
            if name != "__builtins__" and (name.startswith("_") and not name.startswith("__")) is private:
                frames.alone(names.__setitem__, name, None)


def _close_files():
    """Closes the files something still holds that is not taken down here: a module that was there before the
    program, a hook, a closure. The interpreter's own end writes out what they buffer."""
    streams = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    standard = {id(stream) for stream in (*streams, *(getattr(stream, "buffer", None) for stream in streams))}
    # What wraps another one comes first: text, then classes of Python, then bytes.
    found = [[], [], []]
    # What was there before the program is frozen, and not among them.
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, io.IOBase) and not issubclass(kind, _RAW):
            found[2 if kind in _BYTES else 0 if kind is io.TextIOWrapper else 1].append(thing)
    for thing in (thing for things in found for thing in things):
        try:
            if id(thing) not in standard and not thing.closed:
                frames.alone(thing.close)
        except BaseException:
            # Such as a file that has lost its descriptor. The interpreter says nothing either.
            pass


_RAW = (io.RawIOBase, io.BytesIO, io.StringIO)
_BYTES = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair)
