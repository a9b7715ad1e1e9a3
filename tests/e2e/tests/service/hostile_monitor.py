#!/usr/bin/python3 -BsE
"""A monitor that was taken over, in the place of QEMU. What it does is in the file `manner` beside it; `good` is QEMU."""

import os
import re
import socket
import sys

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
QEMU = os.path.join(HERE, "qemu")
GREETING = b'{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}, "package": ""}, "capabilities": ["oob"]}}\r\n'


def qemu():
    os.execv(QEMU, [QEMU, *sys.argv[1:]])


def descriptor(name):
    found = re.search(rf"id={name},fd=(\d+)", " ".join(sys.argv))
    return socket.socket(fileno=int(found[1]))


def send_without_end(connection, piece):
    while True:
        connection.sendall(piece)


def answer_all(connection, answer):
    connection.sendall(GREETING)
    while connection.recv(4096):
        connection.sendall(answer)


# Who it is, it says as QEMU does.
if sys.argv[1:] == ["--version"]:
    qemu()
with open(os.path.join(HERE, "manner")) as file:
    manner = file.read()
if manner == "good":
    qemu()
control = descriptor("control")
if manner == "ends":
    sys.exit(0)
elif manner == "dies":
    os.abort()
elif manner == "hangs up":
    control.sendall(GREETING)
    control.close()
elif manner == "says nonsense":
    control.sendall(b"\x00\x1b[2J\xff{{{]\r\n" * 100)
elif manner == "prints and prints":
    for _ in range(40):
        os.write(2, b"\x1b[31mx" * 10_000)
elif manner == "sends one line without end":
    send_without_end(control, b'{"QMP": "' + b"x" * 60_000)
elif manner == "sends events and nothing else":
    control.sendall(GREETING)
    for _ in range(300):
        control.sendall(b'{"timestamp": {"seconds": 1, "microseconds": 1}, "event": "STOP", "data": {}}\r\n' * 100)
elif manner == "refuses at length":
    answer_all(control, b'{"error": {"class": "GenericError", "desc": "' + b"\\u001b[2Jx" * 5_000 + b'"}}\r\n')
elif manner == "says yes to everything":
    # Its agent is nobody who was ever met: a stream of bytes without end.
    agent = descriptor("agent")
    if os.fork() == 0:
        connection, _ = agent.accept()
        send_without_end(connection, os.urandom(60_000))
    answer_all(control, b'{"return": {"status": "running", "running": true}}\r\n')
sys.exit(3)
