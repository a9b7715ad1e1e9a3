"""Runs something as if nothing were below it on the stack.

In a fresh interpreter the frame of `-c` is the lowest. Here the forker's are below it; stacks,
warnings and the depth of recursion would show them. The interpreter finds them through one pointer
of its thread state, which is cleared for as long as the program runs. Where that pointer is, is
found out and checked, not assumed: on an interpreter where it is not found, the frames stay visible.
"""

import ctypes
import sys
from _functools import partial

_WORDS = 64
_api = ctypes.pythonapi
_api.PyThreadState_Get.restype = ctypes.c_void_p
# Behind an object's header and the pointer to the frame below.
_FRAME_OFFSET = 24


def _find():
    """The addresses of the pointer to the current frame and of the number of frames left."""
    state = _api.PyThreadState_Get()
    frame = sys._getframe()
    current = ctypes.c_void_p.from_address(id(frame) + _FRAME_OFFSET).value
    words = (ctypes.c_void_p * _WORDS).from_address(state)
    found = [index for index in range(_WORDS) if words[index] == current]
    numbers = (ctypes.c_int * (2 * _WORDS)).from_address(state)
    limit = sys.getrecursionlimit()
    # The number of frames left stands before the limit itself.
    depths = [i for i in range(1, 2 * _WORDS) if numbers[i] == limit and limit // 2 < numbers[i - 1] < limit]
    if len(found) != 1 or len(depths) != 1:
        return None, None
    return state + 8 * found[0], state + 4 * (depths[0] - 1)


_pointer, _number = _find()
hidden = _pointer is not None
# Made once; they are where they were in every copy.
_frame, _left = hidden and ctypes.c_void_p.from_address(_pointer), hidden and ctypes.c_int.from_address(_number)


def alone(function, *args):
    """Calls `function` with no frame below it."""
    if not hidden:
        return function(*args)
    # Called through C: a function of Python called from here would have this frame below it.
    call = partial(function, *args)
    below, depth = _frame.value, sys.getrecursionlimit() - _left.value
    try:
        _left.value += depth
        _frame.value = None
        return call()
    finally:
        _frame.value = below
        _left.value -= depth
