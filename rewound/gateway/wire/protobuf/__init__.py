"""Built-in kinds in protobuf, which is smaller than JSON and preferred by Go clients.

    ProtobufEncoder(registry, names).from_json(body) -> bytes      read_object(struct, raw, check) -> Body

`writer` and `reader` are compiled from the declarations of kinds, so a field that is declared there can be encoded
here. `wire_format` reads and writes single fields, and the runtime.Unknown message around every object.
"""

from rewound.gateway.wire.protobuf.objects import NoProtobufType, ProtobufEncoder, read_object
from rewound.gateway.wire.protobuf.wire_format import NotProtobuf

__all__ = ["NoProtobufType", "NotProtobuf", "ProtobufEncoder", "read_object"]
