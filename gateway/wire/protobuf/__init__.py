"""Built-in kinds in protobuf, which takes fewer bytes than JSON and which Go clients prefer.

    ProtobufEncoder(registry, names).from_json(body) -> bytes      read_object(struct, raw, check) -> Body

`writer` and `reader` are compiled from the declarations of kinds, so a field that is declared there can be encoded
here. `scalars` reads values that are messages themselves, `envelope` is the runtime.Unknown message around every
object, `wire_format` reads and writes single fields.
"""

from gateway.wire.protobuf.envelope import NotProtobuf
from gateway.wire.protobuf.objects import NoProtobufType, ProtobufEncoder, read_object

__all__ = ["NoProtobufType", "NotProtobuf", "ProtobufEncoder", "read_object"]
