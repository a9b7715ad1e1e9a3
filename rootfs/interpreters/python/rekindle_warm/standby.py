"""Turns a standby copy into the process of one execution.

The first request says how executions usually are, and the copy becomes that ahead, as far as it can
without being the user's; the last one is the execution's, and the copy changes only what is not so
already. What is done here and in which order is what `exec/child.rs` does for a program that is
executed; the verdict has its form, too: nothing when the program runs, one byte when it runs in a
plain interpreter after all, a step and an error number when it does not run.
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

from . import native, program, request

# Steps a process can fail at, numbered as in exec/child.rs.
_STDIO, _USER, _DIRECTORY, _PROGRAM = 1, 3, 4, 5

_PR_SET_DUMPABLE, _PR_SET_MM = 4, 35
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 8, 9, 10, 11
_prctl = ctypes.CDLL(None).prctl

# Made once: a type of its own for every execution takes longer than all the rest of its naming. An
# argument cannot be longer either, so that every source text has room beside `python3 -c`.
_Arguments = ctypes.c_char * (128 * 1024 + 16)


class Copy:
    """A standby copy, and what it is already."""

    def __init__(self, requests, answers, hidden):
        self._requests, self._answers = requests, answers
        self._hidden = hidden
        self._step = _STDIO
        self._now = None
        # Whether no file stands in front of a hidden module, as far as was looked.
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
            asked = request.receive(self._requests)
            if asked is None:
                os._exit(0)
            try:
                if asked.order == request.GO:
                    self._become_user(asked.source, self._clear)
                    break
                self._become(asked.details)
                if asked.order == request.RUN:
                    self._become_user(asked.source, False)
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
            native.standing_by()
            os.write(self._answers, b".")
        os.close(self._requests)
        os.close(self._answers)
        return asked.source.decode("utf-8", "surrogateescape")

    def _fail(self, error):
        os.write(self._answers, struct.pack("=Bi", self._step, error.errno or errno.EINVAL))
        os._exit(127)

    def _become(self, details):
        """Becomes what a request asks for, but for its user."""
        now, self._now = self._now, details
        if any(details.stdio):
            self._step = _STDIO
            self._open(details)
        if now is None or now.user != details.user:
            self._step = _USER
            os.setgroups([int(group) for group in details.user[2].split(b",") if group])
            os.setresgid(*[int(details.user[1])] * 3)
        if now is None or now.environment != details.environment:
            self._step = _PROGRAM
            self._set_environment(details.environment)

    def _open(self, details):
        for number, path in enumerate(details.stdio):
            if not path:
                continue
            access = os.O_RDWR if details.terminal else os.O_WRONLY if number else os.O_RDONLY
            source = os.open(path, access)
            os.dup2(source, number)
            os.close(source)
        if details.terminal:
            os.setsid()
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
        """Whether the hidden modules are what the program would import, in its directory and with the
        user's own packages, which are added as a fresh interpreter does."""
        os.chdir(self._now.cwd)
        sys.path[:] = self._path
        if not self._use_user_site() or self._hidden.shadowed_by("."):
            return False
        self._hidden.expect(sys.path)
        return True

    def _use_user_site(self):
        site.USER_BASE = site.USER_SITE = None
        place = site.getusersitepackages()
        if not os.path.isdir(place):
            return True
        names = os.listdir(place)
        if "usercustomize.py" in names or self._hidden.shadowed_by(place):
            return False
        # It belongs in front of the system's packages.
        first = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
        rest = sys.path[first:]
        del sys.path[first:]
        site.addusersitepackages(set())
        sys.path.extend(rest)
        return True


def stand_by(requests, answers, hidden):
    """Waits for an execution and becomes it."""
    # A plain interpreter that takes over gets neither.
    os.set_inheritable(requests, False)
    os.set_inheritable(answers, False)
    program.new_main()
    present = [module for name, module in sys.modules.items() if name != "__main__"]
    kept = {id(module) for module in (*present, *hidden.everything())}
    copy = Copy(requests, answers, hidden)
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
