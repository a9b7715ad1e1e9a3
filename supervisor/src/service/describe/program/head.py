# Describes data in few words: what records there are, which keys, of which types, in which ranges. Reads files of any
# size in a window, so that memory does not grow with them. One JSON request comes in on standard input, one JSON answer
# goes out. The parts of this folder are one program, in the order of `describe.rs`; it needs nothing but Python's own
# library, and uses faster modules where they are.
#
# Written so that an interpreter that was started beforehand can run it: nothing of another module is replaced here
# by assignment.

import base64
import builtins
import codecs
import csv
import gc
import io
import itertools
import json
import operator
import os
import re
import stat
import struct
import sys
import time

try:
    import orjson
except ImportError:
    orjson = None

# Bytes that are read at once, and characters of the largest value that is parsed whole.
WINDOW = 1 << 20
# Bytes of the longest line.
LONGEST_LINE = 16 << 20
# Levels of arrays and objects that are looked into.
DEEPEST = 64
# Keys of one object that are told apart; more make it a map.
MOST_FIELDS = 200
# Columns that are compared to find what belongs together.
MOST_COLUMNS = 160
# Values of a column that are told apart.
MOST_DISTINCT = 1000
# Characters of a key, and of a value that is shown.
LONGEST_KEY = 120
LONGEST_EXAMPLE = 60
# Entries of a directory that are counted, and files of one that are described.
MOST_ENTRIES = 200_000
MOST_FILES = 8


class Failure(Exception):
    """A file cannot be described, or not to its end. Its text is for the caller."""


class OutOfTime(Exception):
    """What has been seen so far must do."""


class Clock:
    """When to stop."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def check(self):
        if time.monotonic() > self.end:
            raise OutOfTime

    def share(self, parts):
        """A clock that leaves time for the others."""
        return Clock(max(self.end - time.monotonic(), 0.2) / max(parts, 1))


def open_data(path):
    """Opens a file that has an end: never a pipe, a device or a socket, and without waiting for anybody."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(error.strerror or "cannot be opened") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kinds = [(stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device")]
        kind = next((word for test, word in kinds if test(mode)), "no regular file")
        raise Failure(f"is {kind}: only regular files and directories are described")
    return os.fdopen(handle, "rb", buffering=0)


class Counted:
    """A file that counts what is read of it."""

    def __init__(self, file):
        self.file = file
        self.bytes = 0

    def read(self, size):
        try:
            data = self.file.read(size)
        except (OSError, EOFError, ValueError) as error:
            raise Failure(f"cannot be read on: {clean(str(error))}") from None
        except Exception as error:
            # Of a damaged archive.
            raise Failure(f"cannot be unpacked: {clean(str(error))}") from None
        self.bytes += len(data or b"")
        return data or b""


class Text:
    """The characters of a file, of which a window is held: `held` from `at` on is what comes next."""

    def __init__(self, source, clock):
        self.source = source
        self.clock = clock
        self.held = ""
        self.at = 0
        self.passed = 0
        self.over = False
        self.invalid = False
        first = source.read(WINDOW)
        name = "utf-8"
        for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
            if first.startswith(mark):
                name = encoding
                break
        self.encoding = name
        self.strict = codecs.getincrementaldecoder(name)("strict")
        self.lenient = codecs.getincrementaldecoder(name)("replace")
        self.take(first)

    def take(self, data):
        self.over = not data
        if self.invalid:
            self.held += self.lenient.decode(data, self.over)
            return
        state = self.strict.getstate()
        try:
            self.held += self.strict.decode(data, self.over)
        except UnicodeDecodeError:
            self.invalid = True
            self.lenient.setstate(state)
            self.held += self.lenient.decode(data, self.over)

    def more(self):
        """Reads on, and forgets what was passed. False at the end."""
        if self.over:
            return False
        self.clock.check()
        self.passed += self.at
        self.held = self.held[self.at:]
        self.at = 0
        self.take(self.source.read(WINDOW))
        return True

    def fill(self):
        """Holds at least a window, or all there is."""
        while len(self.held) - self.at < WINDOW and self.more():
            pass

    def where(self):
        return f"character {self.passed + self.at:,}"


def clean(text):
    """Text without anything that is not to be seen."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def short(text, limit):
    return text if len(text) <= limit else text[: limit - 1] + "…"
