#!/usr/bin/python3
"""Runs commands for `cargo xtask lab run`: one at a time, over a virtio-serial port.

The host sends one line of JSON: {"nonce": ..., "command": ...}. The answer is a line
"lab <nonce>", then frames: one byte (o, e or x), four bytes of length (little endian), and
the bytes: output, error output, or the exit code in decimal. When the host hangs up, the
command is killed. This is the machine's first process, so it also collects orphans.
"""
import errno
import fcntl
import json
import os
import select
import signal
import struct
import time

GREETING_LIMIT = 1 << 20
CREATE_VM, CREATE_IRQCHIP, CREATE_VCPU = 0xAE01, 0xAE60, 0xAE41


def pin_kvm():
    """Holds a virtual processor that never runs.

    KVM patches the kernel's code when the first processor with an idle interrupt controller appears
    and when the last one goes. On an emulator with several threads another processor may trip over
    that in the middle, so one stays for as long as the machine.
    """
    try:
        kvm = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
        machine = fcntl.ioctl(kvm, CREATE_VM, 0)
        fcntl.ioctl(machine, CREATE_IRQCHIP, 0)
        return kvm, machine, fcntl.ioctl(machine, CREATE_VCPU, 0)
    except OSError as error:
        print(f"lab: KVM cannot be used: {error}", flush=True)


def find_port():
    while True:
        for name in os.listdir("/sys/class/virtio-ports"):
            with open(f"/sys/class/virtio-ports/{name}/name") as file:
                if file.read().strip() == "lab":
                    return os.open(f"/dev/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        time.sleep(0.01)


def connected(port):
    poll = select.poll()
    poll.register(port, 0)
    return not any(events & select.POLLHUP for _, events in poll.poll(0))


def send(port, data):
    """Writes all of it; False when the host has gone."""
    while data:
        try:
            data = data[os.write(port, data):]
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR) or not connected(port):
                return False
            select.select([], [port], [], 1)
    return True


def frame(kind, data):
    return kind + struct.pack("<I", len(data)) + data


def reap():
    """Collects whatever has ended; the status of each by its pid."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def read_request(port):
    line = b""
    while not line.endswith(b"\n"):
        reap()
        if not connected(port):
            line = b""
            time.sleep(0.02)
            continue
        if not select.select([port], [], [], 0.5)[0]:
            continue
        try:
            byte = os.read(port, 1)
        except BlockingIOError:
            continue
        line = (line + byte)[-GREETING_LIMIT:]
    try:
        return json.loads(line)
    except ValueError:
        return None


def start(command):
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (out_write, 1), (err_write, 2)):
            os.dup2(source, target)
        os.closerange(3, 256)  # The pin among them.
        os.chdir("/root")
        os.execv("/bin/bash", ["bash", "-c", command])
    os.close(out_write)
    os.close(err_write)
    return pid, {out_read: b"o", err_read: b"e"}


def serve(port, request, wakeup):
    if not send(port, b"lab " + request["nonce"].encode() + b"\n"):
        return
    pid, streams = start(request["command"])
    status = None
    while status is None or streams:
        # Once the command has ended, whatever holds its pipes open is not waited for.
        ready = select.select([*streams, wakeup], [], [], 0.2)[0]
        if wakeup in ready:
            os.read(wakeup, 4096)
        status = reap().get(pid, status)
        readable = [fd for fd in ready if fd in streams]
        for fd in readable:
            data = os.read(fd, 65536)
            if not data:
                os.close(fd)
                del streams[fd]
            elif not send(port, frame(streams[fd], data)):
                break
        if not connected(port):
            if status is None:
                os.killpg(pid, signal.SIGKILL)
            break
        if status is not None and not readable:
            break
    for fd in streams:
        os.close(fd)
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
        send(port, frame(b"x", str(code if code >= 0 else 128 - code).encode()))


def main():
    pin = pin_kvm()
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    port = find_port()
    while True:
        request = read_request(port)
        if request:
            serve(port, request, wakeup)
    return pin


main()
