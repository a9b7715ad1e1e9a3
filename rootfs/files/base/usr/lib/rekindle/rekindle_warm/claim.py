"""Turns a parked copy into the process of one execution.

The request is a length and then strings, each ended by a zero byte, in the order of `Request`. It
comes from the agent alone (warm/request.rs). What is done here and in which order is what `exec/child.rs` does for a
program that is executed; the verdict has its form, too: nothing when the program runs, one byte when
it runs in a plain interpreter after all, a step and an error number when it does not run.
"""

import ctypes
import errno
import fcntl
import os
import site
import struct
import sys
import termios
import time

from . import program

# Steps a process can fail at, numbered as in exec/child.rs.
_STDIO, _USER, _DIRECTORY, _PROGRAM = 1, 3, 4, 5

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE, _PR_SET_MM = 4, 35
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 8, 9, 10, 11


class Request:
    """What the agent wants to be run."""

    def __init__(self, data):
        fields = data.split(b"\0")
        (self.terminal, self.uid, self.gid, groups, self.cwd, *self.stdio) = fields[:8]
        self.source = fields[8]
        self.environment = fields[9:-1]
        self.groups = [int(group) for group in groups.split(b",") if group]


def park(control, shelf):
    """Waits for a request on `control` and becomes it."""
    os.setsid()
    program.new_main()
    os.write(control, b".")
    data = _read(control, struct.unpack("<I", _read(control, 4))[0])
    _become(control, Request(data), shelf)


def _read(control, size):
    """Reads so many bytes; the agent going away ends a parked copy."""
    parts = []
    while size:
        part = os.read(control, size)
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _become(control, request, shelf):
    step = _STDIO
    try:
        for number, path in enumerate(request.stdio):
            source = os.open(path, _access(request, number))
            os.dup2(source, number)
            os.close(source)
        if request.terminal == b"1":
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        step = _USER
        _name_process(request)
        os.setgroups(request.groups)
        os.setresgid(*[int(request.gid)] * 3)
        os.setresuid(*[int(request.uid)] * 3)
        # Changing the user hides a process from it, as if it held secrets. It holds none.
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        step = _DIRECTORY
        os.chdir(request.cwd)
        step = _PROGRAM
        _set_environment(request.environment)
        if not _use_user_site(shelf) or _stands_in_front(".", shelf):
            os.write(control, b"p")
            os.execvpe(b"python3", [b"python3", b"-c", request.source], os.environb)
        source = request.source.decode("utf-8", "surrogateescape")
        sys.argv = ["-c"]
        sys.orig_argv = ["python3", "-c", source]
        program.open_streams()
    except OSError as error:
        os.write(control, struct.pack("=Bi", step, error.errno or errno.EINVAL))
        os._exit(127)
    os.close(control)
    present = [module for name, module in sys.modules.items() if name != "__main__"]
    program.run(source, [*present, *shelf.everything()])


def _access(request, number):
    if request.terminal == b"1":
        return os.O_RDWR
    return os.O_WRONLY if number else os.O_RDONLY


def _name_process(request):
    """Shows the arguments and the environment of the execution in /proc instead of the forker's."""
    arguments = b"".join(word + b"\0" for word in (b"python3", b"-c", request.source))
    environment = b"".join(variable + b"\0" for variable in request.environment)
    global _shown
    _shown = [ctypes.create_string_buffer(text, max(len(text), 1)) for text in (arguments, environment)]
    for buffer, size, start, end in (
        (_shown[0], len(arguments), _ARG_START, _ARG_END),
        (_shown[1], len(environment), _ENV_START, _ENV_END),
    ):
        # The heap is below the stack, so the start may be moved before the end.
        address = ctypes.addressof(buffer)
        for option, value in ((start, address), (end, address + size)):
            if _libc.prctl(_PR_SET_MM, option, ctypes.c_ulong(value), 0, 0) != 0:
                return


def _set_environment(variables):
    os.environb.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    time.tzset()


def _use_user_site(shelf):
    """Adds the user's own packages, as a fresh interpreter does. Says whether that is possible."""
    site.USER_BASE = site.USER_SITE = None
    place = site.getusersitepackages()
    if not os.path.isdir(place):
        return True
    names = os.listdir(place)
    if "usercustomize.py" in names or _stands_in_front(place, shelf):
        return False
    # It belongs in front of the system's packages.
    first = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
    rest = sys.path[first:]
    del sys.path[first:]
    site.addusersitepackages(set())
    sys.path.extend(rest)
    return True


def _stands_in_front(directory, shelf):
    """Whether a file in `directory` has the name of a module that is on the shelf."""
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    top_level = shelf.top_level()
    for name in names:
        stem, _, extension = name.partition(".")
        if stem in top_level:
            inner = os.path.join(directory, name)
            if extension or os.path.exists(os.path.join(inner, "__init__.py")):
                return True
    return False
