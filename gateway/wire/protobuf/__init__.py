"""Built-in kinds in protobuf: fewer bytes than JSON, and what programs written in Go like to speak.

    Messages(catalog, names).from_json(body) -> bytes      read_object(struct, raw, check) -> Body

`writer` and `reader` are compiled from the same declarations that JSON is judged by, so that a field added there
is on the wire here. `leaves` are the values that are messages of their own, `envelope` is what stands around every
object, `walk` and `pieces` are what all of protobuf is made of.
"""

from gateway.wire.protobuf.envelope import NotProtobuf
from gateway.wire.protobuf.messages import Messages, UnknownMessage, read_object

__all__ = ["Messages", "NotProtobuf", "UnknownMessage", "read_object"]
