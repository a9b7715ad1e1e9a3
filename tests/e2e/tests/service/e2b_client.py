"""What a program that knows only E2B does. Run by e2b.rs, with E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL set."""

import asyncio
import os
import time
import urllib.error
import urllib.request

from e2b import (
    AsyncSandbox,
    AuthenticationException,
    BuildException,
    CommandExitException,
    FileNotFoundException,
    NotFoundException,
    Sandbox,
    SandboxException,
    Template,
    TimeoutException,
    Volume,
    VolumeException,
)

# An emulated guest on a busy host takes its time.
PATIENCE = 240


def commands(sandbox):
    run = lambda line, **options: sandbox.commands.run(line, request_timeout=PATIENCE, **options)
    assert run("python3 -c 'print(6 * 7)'").stdout == "42\n"
    assert run("echo $WORD $MORE && pwd", envs={"MORE": "there"}, cwd="/tmp").stdout == "hello there\n/tmp\n"
    assert run("id -un; pwd; command -v ldconfig", user="root").stdout == "root\n/root\n/usr/sbin/ldconfig\n"
    pieces = []
    ended = run("echo out && echo err >&2", on_stdout=pieces.append)
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("out\n", "err\n", 0), ended
    assert "".join(pieces) == "out\n", pieces
    try:
        run("echo before && exit 3")
        raise AssertionError("a failed command is no success")
    except CommandExitException as failed:
        assert (failed.exit_code, failed.stdout) == (3, "before\n"), failed
    try:
        run("sleep 600", timeout=3)
        raise AssertionError("a time limit counts")
    except TimeoutException:
        pass
    print("commands")


def background(sandbox):
    handle = sandbox.commands.run("read line && echo \"got $line\"", background=True, stdin=True, timeout=PATIENCE)
    assert handle.pid in [process.pid for process in sandbox.commands.list()]
    sandbox.commands.send_stdin(handle.pid, "a word\n")
    assert handle.wait().stdout == "got a word\n"
    sleeper = sandbox.commands.run("sleep 600", background=True, timeout=PATIENCE)
    assert sandbox.commands.kill(sleeper.pid) is True
    assert sandbox.commands.kill(999_999) is False
    print("background")


def files(sandbox):
    data = bytes(range(256)) * 4096
    sandbox.files.write("folder/data.bin", data)
    assert bytes(sandbox.files.read("folder/data.bin", format="bytes")) == data
    sandbox.files.write("folder/text", "first")
    sandbox.files.write("folder/text", "second")
    assert sandbox.files.read("/home/user/folder/text") == "second"
    names = sorted(entry.name for entry in sandbox.files.list("folder"))
    assert names == ["data.bin", "text"], names
    assert sandbox.files.exists("folder/text") and not sandbox.files.exists("folder/none")
    assert sandbox.files.get_info("folder/data.bin").size == len(data)
    assert sandbox.files.make_dir("folder/new") is True and sandbox.files.make_dir("folder/new") is False
    sandbox.files.rename("folder/text", "folder/new/text")
    sandbox.files.remove("folder/new/text")
    try:
        sandbox.files.read("folder/new/text")
        raise AssertionError("what was removed is gone")
    except FileNotFoundException:
        pass
    print("files")


def life(sandbox):
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.metadata == {"made": "here"}, info
    assert sandbox.is_running()
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("echo again", request_timeout=PATIENCE).stdout == "again\n"
    sandbox.set_timeout(PATIENCE)
    listed = Sandbox.list().next_items()
    assert sandbox.sandbox_id in [other.sandbox_id for other in listed], listed
    print("life")


def terminal(sandbox):
    from e2b import PtySize

    seen = bytearray()
    pty = sandbox.pty.create(PtySize(rows=24, cols=80), timeout=PATIENCE)
    sandbox.pty.resize(pty.pid, PtySize(rows=40, cols=100))
    sandbox.pty.send_stdin(pty.pid, b"stty size; exit\n")
    pty.wait(on_pty=seen.extend)
    assert b"40 100" in seen, seen
    print("terminal")


def ports(sandbox):
    # Without a domain the name leads nowhere; its two parts travel in headers, as the SDK's own requests do.
    assert sandbox.get_host(8000).startswith(f"8000-{sandbox.sandbox_id}.")

    def fetch(path, data=None):
        request = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + path, data)
        request.add_header("E2b-Sandbox-Id", sandbox.sandbox_id)
        request.add_header("E2b-Sandbox-Port", "8000")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()

    try:
        fetch("/")
        raise AssertionError("nothing listens yet")
    except urllib.error.HTTPError as closed:
        assert closed.code == 502 and b"port is not open" in closed.read(), closed
    content = "served from inside\n" * 20_000
    sandbox.files.write("site/page.txt", content)
    server = sandbox.commands.run("python3 -m http.server 8000 --directory site", background=True, timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            assert fetch("/page.txt") == (200, content.encode())
            break
        except urllib.error.HTTPError as closed:
            assert closed.code == 502 and time.monotonic() < deadline, closed
            time.sleep(0.5)
    try:
        fetch("/page.txt", b"a body")
        raise AssertionError("this server takes no POST")
    except urllib.error.HTTPError as refused:
        assert refused.code == 501, "the program's own answer"
    assert server.kill() is True
    print("ports")


def absent(sandbox):
    for what, ask in (
        ("snapshots of sandboxes", sandbox.create_snapshot),
        ("volumes", lambda: Volume.create("mine")),
        ("template builds", lambda: Template.build(Template().from_base_image(), "mine")),
    ):
        try:
            ask()
            raise AssertionError(f"there are no {what}")
        except (SandboxException, VolumeException, BuildException) as refused:
            assert f"Rekindle has no {what}" in str(refused), refused
    print("absent")


async def asynchronous():
    sandbox = await AsyncSandbox.create(timeout=PATIENCE, request_timeout=PATIENCE)
    lines = [sandbox.commands.run(f"echo {number}", request_timeout=PATIENCE) for number in range(4)]
    printed = [ended.stdout for ended in await asyncio.gather(*lines)]
    assert printed == ["0\n", "1\n", "2\n", "3\n"], printed
    assert await sandbox.kill() is True
    print("asynchronous")


def main():
    sandbox = Sandbox.create(
        timeout=PATIENCE, metadata={"made": "here"}, envs={"WORD": "hello"}, request_timeout=PATIENCE
    )
    for part in (commands, background, files, life, terminal, ports, absent):
        part(sandbox)
    assert sandbox.kill() is True
    assert sandbox.kill() is False and not sandbox.is_running()
    try:
        Sandbox.connect(sandbox.sandbox_id)
        raise AssertionError("what has ended is gone")
    except NotFoundException:
        pass
    asyncio.run(asynchronous())
    try:
        Sandbox.create(api_key="e2b_" + "00" * 20, request_timeout=PATIENCE)
        raise AssertionError("another's key is no key")
    except AuthenticationException:
        pass
    print("done")


main()
