"""Names of the sandboxes of `cargo xtask compat`, in place of a name server: loaded by pytest as a plugin."""

import os
import socket

DOMAIN = "." + os.environ["COMPAT_DOMAIN"]
ADDRESS = os.environ["COMPAT_ADDRESS"]

_getaddrinfo = socket.getaddrinfo


def getaddrinfo(host, *rest, **more):
    name = host.decode() if isinstance(host, bytes) else host
    return _getaddrinfo(ADDRESS if name and name.endswith(DOMAIN) else host, *rest, **more)


socket.getaddrinfo = getaddrinfo
