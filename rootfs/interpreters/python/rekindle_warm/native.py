"""The end of a process, by rootfs/interpreters/native where it can be loaded: its exit code is told before its
memory is taken down."""

import ctypes
import os

try:
    _library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "../../native.so"))
    standing_by = _library.rekindle_standing_by
    end = _library.rekindle_exit
    standing_by.restype = end.restype = None
except OSError:
    # Looked up ahead: nobody waits for it here.
    _flush = ctypes.CDLL(None).fflush

    def standing_by():
        """Says that what the process has mapped by now is not its program's."""

    def end(status):
        """Ends the process. No library's destructors run; what C code has printed is flushed."""
        _flush(None)
        os._exit(status)
