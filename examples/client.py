"""The API of a Rekindle server, made from what the server says about itself by reflection."""

import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

DEFAULT = "unix:/run/rekindle/rekindle.sock"


class Service:
    """The methods of one service, callable by their names."""

    def __init__(self, channel, descriptor):
        for method in descriptor.methods:
            asks = "stream" if method.client_streaming else "unary"
            answers = "stream" if method.server_streaming else "unary"
            call = getattr(channel, f"{asks}_{answers}")(
                f"/{descriptor.full_name}/{method.name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)


class Client:
    """`client.sandboxes`, `client.files` and `client.host`; `client.new("ExecuteRequest", ...)` makes messages."""

    def __init__(self, address):
        # The path of a socket is no host name, so one is given.
        self.channel = grpc.insecure_channel(address, options=[("grpc.default_authority", "localhost")])
        self.pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        for name in ("Sandboxes", "Files", "Host"):
            descriptor = self.pool.FindServiceByName(f"rekindle.v1.{name}")
            setattr(self, name.lower(), Service(self.channel, descriptor))

    def new(self, name, **fields):
        return GetMessageClass(self.pool.FindMessageTypeByName(f"rekindle.v1.{name}"))(**fields)

    def python(self, source):
        """A program in Python."""
        language = self.pool.FindEnumTypeByName("rekindle.v1.Language").values_by_name["LANGUAGE_PYTHON"].number
        return self.new("Program", code=self.new("Code", language=language, source=source))

    def upload(self, sandbox, path, content):
        """Writes a file, whole or not at all."""
        start = self.new("UploadFileStart", sandbox=sandbox, path=path.encode(), size=len(content))
        parts = [self.new("UploadFileRequest", start=start)]
        for at in range(0, len(content), 1 << 20):
            parts.append(self.new("UploadFileRequest", chunk=content[at : at + (1 << 20)]))
        parts.append(self.new("UploadFileRequest", end=self.new("UploadFileEnd")))
        return self.files.Upload(iter(parts))

    def download(self, sandbox, path):
        """Reads a file. One without an end is incomplete."""
        content = b""
        for part in self.files.Download(self.new("DownloadFileRequest", sandbox=sandbox, path=path.encode())):
            if part.WhichOneof("part") == "end":
                return content
            content += part.chunk
        raise EOFError(f"{path} is incomplete")


def connect():
    """The server that the command line names, or this machine's."""
    return Client(sys.argv[1] if len(sys.argv) > 1 else DEFAULT)
