"""Gives an interpreter that outlives a snapshot fresh randomness in every clone.

Imported at start only while a template is built. The interpreter registers itself; after a
restore the agent sends it a signal, and it reseeds and says so by removing its registration.
"""

import os
import signal
import sys

_ROOM = "/run/rekindle/interpreters"
_SIGNAL = signal.SIGRTMIN + 6


def _registration():
    return os.path.join(_ROOM, str(os.getpid()))


def _register():
    try:
        with open(_registration(), "w") as file:
            file.write("python\n")
    except OSError:
        pass


def _reseed(_signal, _frame):
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None
    try:
        os.unlink(_registration())
    except OSError:
        pass


signal.signal(_SIGNAL, _reseed)
_register()
# A child is an interpreter of its own.
os.register_at_fork(after_in_child=_register)
