"""A client made of nothing but what the server says about itself. Run by python.rs: client.py ADDRESS."""

import datetime
import hashlib
import os
import queue
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

SIZE = 64 * 1024 * 1024
PIECE = 1024 * 1024
PATIENCE = 240


class Service:
    """The methods of a service, as reflection describes them."""

    def __init__(self, channel, pool, name):
        for method in pool.FindServiceByName(name).methods:
            kind = ("stream" if method.client_streaming else "unary") + "_" + (
                "stream" if method.server_streaming else "unary"
            )
            call = getattr(channel, kind)(
                f"/{name}/{method.name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)


def main(address):
    # Otherwise it names the socket's path as the host, with escapes that no host has, and is refused.
    channel = grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")])
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    # Its later version, whose messages are the same.
    ask = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )
    listed = next(ask(iter([ServerReflectionRequest(list_services="")]), timeout=PATIENCE)).list_services_response
    own = {name for name in services if name.startswith("rekindle.")}
    assert own <= {service.name for service in listed.service}, listed
    assert {"rekindle.v1.Sandboxes", "rekindle.v1.Files", "rekindle.v1.Host", "grpc.health.v1.Health"} <= services, services
    pool = DescriptorPool(database)

    def message(name, **fields):
        return GetMessageClass(pool.FindMessageTypeByName("rekindle.v1." + name))(**fields)

    def enum(name, value):
        return pool.FindEnumTypeByName("rekindle.v1." + name).values_by_number[value].name

    sandboxes = Service(channel, pool, "rekindle.v1.Sandboxes")
    files = Service(channel, pool, "rekindle.v1.Files")
    host = Service(channel, pool, "rekindle.v1.Host")
    health = Service(channel, pool, "grpc.health.v1.Health")

    check = GetMessageClass(pool.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
    serving = health.Check(check(service="rekindle.v1.Sandboxes"), timeout=PATIENCE)
    assert serving.status == 1, serving

    templates = host.ListTemplates(message("ListTemplatesRequest"), timeout=PATIENCE).templates
    assert [t.name for t in templates if t.is_default] == ["minimal"], templates

    create = message("CreateSandboxRequest", metadata={"from": "python"}, request_id="python-1")
    create.ttl.FromTimedelta(datetime.timedelta(minutes=20))
    sandbox = sandboxes.Create(create, timeout=PATIENCE)
    # A call that is repeated makes no second sandbox.
    assert sandboxes.Create(create, timeout=PATIENCE).id == sandbox.id
    assert enum("SandboxState", sandbox.state) == "SANDBOX_STATE_RUNNING", sandbox
    print("created", sandbox.id, enum("SandboxStartKind", sandbox.start.kind), sandbox.start.total.ToMicroseconds(), "us")
    lives = sandbox.expires_at.ToSeconds() - sandbox.created_at.ToSeconds()
    assert 1190 <= lives <= 1210, sandbox

    # A program that runs and fails is an answer, not an error.
    program = message("Program", shell="echo out; echo err >&2; exit 3")
    ended = sandboxes.Execute(message("ExecuteRequest", sandbox=sandbox.id, program=program), timeout=PATIENCE)
    assert (ended.outcome.WhichOneof("outcome"), ended.outcome.exit_code) == ("exit_code", 3), ended
    assert (ended.stdout.text, ended.stderr.text) == ("out\n", "err\n"), ended

    stream(sandboxes, message, sandbox.id)
    transfer(files, message, sandbox.id)

    ended = sandboxes.Destroy(message("DestroySandboxRequest", sandbox=sandbox.id), timeout=PATIENCE)
    assert enum("SandboxEndReason", ended.end.reason) == "SANDBOX_END_REASON_DESTROYED", ended
    refused(sandboxes, message, enum, pool, sandbox.id)
    channel.close()
    print("done")


def stream(sandboxes, message, sandbox):
    """Answers a program while it runs: it must have been heard before it was answered."""
    inputs = queue.Queue()
    program = message("Program", shell="echo first; read word; echo got $word; cat >&2")
    request = message("ExecuteRequest", sandbox=sandbox, program=program)
    start = message("ExecuteStart", request=request, live_stdin=True)
    inputs.put(message("ExecuteInput", start=start))
    events = sandboxes.ExecuteStream(iter(inputs.get, None), timeout=PATIENCE)
    first = next(events)
    assert first.WhichOneof("event") == "started" and first.started.pid > 0, first
    out, err, finished = b"", b"", None
    for event in events:
        kind = event.WhichOneof("event")
        assert finished is None, event
        if kind == "stdout":
            out += event.stdout
            if out == b"first\n":
                inputs.put(message("ExecuteInput", stdin=b"word\n"))
            elif out == b"first\ngot word\n":
                inputs.put(message("ExecuteInput", stdin=b"the rest"))
                inputs.put(message("ExecuteInput", stdin_end=message("StdinEnd")))
        elif kind == "stderr":
            err += event.stderr
        else:
            finished = event.finished
    inputs.put(None)
    assert (out, err) == (b"first\ngot word\n", b"the rest"), (out, err)
    assert (finished.outcome.WhichOneof("outcome"), finished.outcome.exit_code) == ("exit_code", 0), finished


def transfer(files, message, sandbox):
    """Random bytes there and back, counted and hashed on both sides."""
    content = os.urandom(SIZE)
    digest = hashlib.sha256(content).digest()

    def pieces():
        yield message("UploadFileRequest", start=message("UploadFileStart", sandbox=sandbox, path=b"deep/er/random"))
        for at in range(0, SIZE, PIECE):
            yield message("UploadFileRequest", chunk=content[at : at + PIECE])
        yield message("UploadFileRequest", end=message("UploadFileEnd"))

    file = files.Upload(pieces(), timeout=PATIENCE)
    assert (file.size, file.sha256) == (SIZE, digest), file
    back, size, end = hashlib.sha256(), 0, None
    for part in files.Download(
        message("DownloadFileRequest", sandbox=sandbox, path=b"deep/er/random"), timeout=PATIENCE
    ):
        assert end is None, "nothing comes after the end"
        if part.WhichOneof("part") == "chunk":
            back.update(part.chunk)
            size += len(part.chunk)
        else:
            end = part.end
    assert end is not None, "a download without an end is incomplete"
    assert (size, back.digest()) == (SIZE, digest), (size, back.hexdigest())
    assert (end.size, end.sha256) == (SIZE, digest), end
    print("transferred", SIZE, "bytes", digest.hex())


def refused(sandboxes, message, enum, pool, sandbox):
    """The typed detail of an error, as google.rpc.Status carries it; its envelope is read by hand."""
    program = message("Program", shell="true")
    try:
        sandboxes.Execute(message("ExecuteRequest", sandbox=sandbox, program=program), timeout=PATIENCE)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
        trailers = dict(error.trailing_metadata())
        detail = GetMessageClass(pool.FindMessageTypeByName("rekindle.v1.ErrorDetail"))
        any_of, info = (fields(detail) for detail in fields(trailers["grpc-status-details-bin"], 3))
        assert any_of[1] == b"type.googleapis.com/rekindle.v1.ErrorDetail", any_of
        told = detail.FromString(any_of[2])
        assert info[1] == b"type.googleapis.com/google.rpc.ErrorInfo", info
        assert fields(info[2]) == {1: b"SANDBOX_ENDED", 2: b"rekindle"}, info
        assert enum("ErrorReason", told.reason) == "ERROR_REASON_SANDBOX_ENDED", told
        assert enum("SandboxEndReason", told.end.reason) == "SANDBOX_END_REASON_DESTROYED" and told.hint, told
    else:
        raise AssertionError("a destroyed sandbox runs nothing")


def fields(data, repeated=None):
    """The fields of an encoded message by number, the last of each; or all with the number `repeated`."""
    found, every, at = {}, [], 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        else:
            assert key & 7 == 2, key
            size = varint()
            found[key >> 3] = data[at : at + size]
            if key >> 3 == repeated:
                every.append(found[repeated])
            at += size
    return found if repeated is None else every


main(sys.argv[1])
