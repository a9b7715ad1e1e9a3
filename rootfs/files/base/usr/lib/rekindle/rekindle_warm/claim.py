"""Turns a parked copy into the process of one execution.

A request is a length and then strings, each ended by a zero byte, in the order of `Request`. It comes
from the agent alone (warm/request.rs). The first one says how executions usually are, and the copy
becomes that ahead, as far as it can without being the user's; the last one is the execution's, and the
copy changes only what is not so already. What is done here and in which order is what `exec/child.rs`
does for a program that is executed; the verdict has its form, too: nothing when the program runs, one
byte when it runs in a plain interpreter after all, a step and an error number when it does not run.

An execution that is what the copy was prepared for is received, and its last steps are taken, by `wake`
(rootfs/wake), if this interpreter can load it: in a fresh clone that takes a fraction of the time.
"""

import ctypes
import errno
import fcntl
import gc
import os
import site
import struct
import sys
import termios
import time

from . import program

try:
    from . import wake
except ImportError:
    wake = None

# Steps a process can fail at, numbered as in exec/child.rs.
_STDIO, _USER, _DIRECTORY, _PROGRAM = 1, 3, 4, 5

_PR_SET_DUMPABLE, _PR_SET_MM = 4, 35
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 8, 9, 10, 11
_prctl = ctypes.CDLL(None).prctl

# Made once: a type of its own for every execution takes longer than all the rest of its naming. An
# argument cannot be longer either, so that every source text has room beside `python3 -c`.
_Arguments = ctypes.c_char * (128 * 1024 + 16)


class Request:
    """What the agent wants to be run."""

    def __init__(self, fields):
        self.terminal = fields[4] == b"1"
        self.stdio = fields[5:8]
        # User, group, and all groups.
        self.user = fields[8:11]
        self.cwd = fields[11]
        self.environment = fields[12:-1]


class Copy:
    """A parked copy, and what it is already."""

    def __init__(self, requests, answers, shelf):
        self._requests, self._answers = requests, answers
        self._shelf = shelf
        self._step = _STDIO
        self._now = None
        # Whether no file stands in front of a module that is on the shelf, as far as was looked.
        self._clear = False
        self._path = list(sys.path)
        self._variables = None
        self._arguments = _Arguments()
        self._arguments.raw = b"python3\0"
        self._address = ctypes.addressof(self._arguments)
        self._end = ctypes.c_ulong()
        _show(self._arguments, 8, _ARG_START, _ARG_END)

    def wait(self):
        """Prepares for what it is told until it is told to run. Returns the program's source."""
        os.write(self._answers, b".")
        while True:
            begun = self._wait()
            if type(begun) is str:
                return begun
            fields = self._receive(begun)
            try:
                if fields[0] == b"go":
                    self._become_user(fields[3], self._clear)
                    break
                self._become(Request(fields))
                if fields[0] == b"run":
                    self._become_user(fields[3], False)
                    break
            except OSError as error:
                self._fail(error)
            try:
                self._clear = self._look()
            except OSError:
                # It is looked for again.
                pass
            # What is there now need not be looked at when the program ends. What is the program's must.
            gc.freeze()
            program.new_main()
            os.write(self._answers, b".")
        os.close(self._requests)
        os.close(self._answers)
        return fields[3].decode("utf-8", "surrogateescape")

    def _wait(self):
        """The beginning of a request, or the source of a program for which everything is done."""
        if wake is None:
            return b""
        user, cwd = (int(self._now.user[0]), self._now.cwd) if self._clear else (-1, b"")
        return wake.wait(self._requests, self._answers, user, cwd, self._address)

    def _receive(self, data):
        """The strings of a request that has begun; the agent going away ends a parked copy."""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            part = os.read(self._requests, 1 << 16)
            if not part:
                os._exit(0)
            data += part
        return data[4:].split(b"\0")

    def _fail(self, error):
        os.write(self._answers, struct.pack("=Bi", self._step, error.errno or errno.EINVAL))
        os._exit(127)

    def _become(self, request):
        """Becomes what a request asks for, but for its user."""
        now, self._now = self._now, request
        if any(request.stdio):
            self._step = _STDIO
            self._open(request)
        if now is None or now.user != request.user:
            self._step = _USER
            os.setgroups([int(group) for group in request.user[2].split(b",") if group])
            os.setresgid(*[int(request.user[1])] * 3)
        if now is None or now.environment != request.environment:
            self._step = _PROGRAM
            self._set_environment(request.environment)

    def _open(self, request):
        for number, path in enumerate(request.stdio):
            if not path:
                continue
            access = os.O_RDWR if request.terminal else os.O_WRONLY if number else os.O_RDONLY
            source = os.open(path, access)
            os.dup2(source, number)
            os.close(source)
        if request.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        program.open_streams()

    def _set_environment(self, variables):
        os.environb.clear()
        for variable in variables:
            name, _, value = variable.partition(b"=")
            os.environb[name] = value
        time.tzset()
        text = b"".join(variable + b"\0" for variable in variables)
        self._variables = ctypes.create_string_buffer(text, max(len(text), 1))
        _show(self._variables, len(text), _ENV_START, _ENV_END)

    def _become_user(self, source, clear):
        """Takes the last steps, which belong to the execution alone."""
        # As root still.
        words = b"python3\0-c\0" + source + b"\0"
        self._arguments.raw = words
        self._end.value = self._address + len(words)
        _prctl(_PR_SET_MM, _ARG_END, self._end, 0, 0)
        self._step = _USER
        uid = int(self._now.user[0])
        os.setresuid(uid, uid, uid)
        # Changing the user hides a process from it, as if it held secrets. It holds none.
        _prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        self._step = _DIRECTORY
        os.chdir(self._now.cwd)
        self._step = _PROGRAM
        if not clear and not self._look():
            os.write(self._answers, b"p")
            os.execvpe(b"python3", [b"python3", b"-c", source], os.environb)

    def _look(self):
        """Whether the modules on the shelf are what the program would import, in its directory and with
        the user's own packages, which are added as a fresh interpreter does."""
        os.chdir(self._now.cwd)
        sys.path[:] = self._path
        return self._use_user_site() and not self._stands_in_front(".")

    def _use_user_site(self):
        site.USER_BASE = site.USER_SITE = None
        place = site.getusersitepackages()
        if not os.path.isdir(place):
            return True
        names = os.listdir(place)
        if "usercustomize.py" in names or self._stands_in_front(place):
            return False
        # It belongs in front of the system's packages.
        first = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
        rest = sys.path[first:]
        del sys.path[first:]
        site.addusersitepackages(set())
        sys.path.extend(rest)
        return True

    def _stands_in_front(self, directory):
        """Whether a file in `directory` has the name of a module that is on the shelf."""
        try:
            names = os.listdir(directory)
        except OSError:
            return False
        top_level = self._shelf.top_level()
        for name in names:
            stem, _, extension = name.partition(".")
            if stem in top_level:
                inner = os.path.join(directory, name)
                if extension or os.path.exists(os.path.join(inner, "__init__.py")):
                    return True
        return False


def park(requests, answers, shelf):
    """Waits for an execution and becomes it."""
    os.setsid()
    # A plain interpreter that takes over gets neither.
    os.set_inheritable(requests, False)
    os.set_inheritable(answers, False)
    program.new_main()
    present = [module for name, module in sys.modules.items() if name != "__main__"]
    kept = {id(module) for module in (*present, *shelf.everything())}
    copy = Copy(requests, answers, shelf)
    sys.argv = ["-c"]
    sys.orig_argv = words = ["python3", "-c", ""]
    words[2] = source = copy.wait()
    program.run(source, kept)


def _show(buffer, size, start, end):
    """Shows a buffer in /proc as the arguments or the environment of this process, instead of the forker's."""
    # The heap is below the stack, so the start may be moved before the end.
    address = ctypes.addressof(buffer)
    for option, value in ((start, address), (end, address + size)):
        if _prctl(_PR_SET_MM, option, ctypes.c_ulong(value), 0, 0) != 0:
            return
