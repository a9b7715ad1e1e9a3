"""The process that standby copies are forked from. Started by the agent, as root, before the snapshot.

Its control socket brings one byte and two descriptors for each copy wanted: where the copy reads its
requests, and where it answers. The copy is forked twice, so that it becomes a child of the agent; the
forker then tells the agent its process id in the copy's place.
"""

import os
import sys

from . import hidden_modules

# What a fresh interpreter has; of this package only its own names are on top.
_BASELINE = [name for name in sys.modules if name.partition(".")[0] != __package__]


def serve(control, modules):
    """Loads `modules`, then forks copies until the agent is gone."""
    # Nothing is imported from wherever the forker happens to be. In front is where this package is.
    sys.path.remove("")
    with hidden_modules.HiddenModules(_BASELINE) as loaded:
        from . import standby
        import gc
        import socket

        for name in modules:
            try:
                __import__(name)
            except ImportError as error:
                print(f"rekindle: {name} is not kept warm: {error}", file=sys.stderr)
    sys.path[0] = ""
    # Nothing was to be written while this package and the modules were loaded.
    sys.dont_write_bytecode = False
    loaded.hide(__package__)
    door = socket.socket(fileno=control)
    told, tell = os.pipe()
    gc.collect()
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(door, 1, 2)
        if not order:
            os._exit(0)
        middle = os.fork()
        if middle == 0:
            # What leads a process group cannot begin a session, and a program may want to.
            os.setsid()
            copy = os.fork()
            if copy:
                os.write(tell, b"%d\n" % copy)
                os._exit(0)
            door.detach()
            for descriptor in (control, told, tell):
                os.close(descriptor)
            standby.stand_by(*descriptors, loaded)
        os.waitpid(middle, 0)
        # Only now is the copy a child of the agent.
        requests, answers = descriptors
        os.write(answers, os.read(told, 32))
        os.close(requests)
        os.close(answers)
