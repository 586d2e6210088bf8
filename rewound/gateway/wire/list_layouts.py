"""Lists in JSON, indented JSON, YAML, protobuf and CBOR, written slice by slice.

A layout writes what comes before the elements (`head`) and after them (`tail`), and converts each `element` from
compact JSON, in a worker thread if it has more than `in_thread` bytes. The result is the same as if the whole list
were encoded at once. The metadata of a list is at its usual place, unless it is known only at the end: then `head`
gets None, and `tail` writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.messages import Object
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.gateway.wire import yaml
from rewound.gateway.wire.cbor.writer import ARRAY, MAP, SELF_DESCRIBED, CborEncoder
from rewound.gateway.wire.cbor.writer import head as cbor_head
from rewound.gateway.wire.json import pretty
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder, load
from rewound.gateway.wire.protobuf.wire_format import wrap
from rewound.gateway.wire.worker_threads import encode_in_thread

Element = Callable[[bytes], bytes]


class ListType(msgspec.Struct, frozen=True):
    """The parts of a list document besides its metadata and its elements."""

    kind: str
    api_version: str
    elements: str = "items"
    fields: Object = msgspec.field(default_factory=dict)  # fields between the metadata and the elements
    shows_continue: bool = False  # lists of custom kinds have an empty continue token at the end

    def metadata(self, found: Object) -> Object:
        return {"continue": "", **found} if self.shows_continue else found

    def before(self, metadata: Object | None) -> Object:
        """Everything but the elements; `metadata` is None if it follows them."""
        stated: Object = {} if metadata is None else {"metadata": self.metadata(metadata)}
        return {"kind": self.kind, "apiVersion": self.api_version, **stated, **self.fields}


async def encode_elements(
    element: Element | None, bodies: list[bytes], in_thread: int, most: int
) -> list[bytes]:
    """Convert objects in turns, up to the one that brings the elements to `most` bytes.

    Those of more than `in_thread` bytes are converted in a worker thread, and so are those after one that became so
    large: the defaults of a custom kind may make any small object large.
    """
    if element is None:
        return bodies
    elements: list[bytes] = []
    size = last = 0
    turn = Turn()
    for body in bodies:
        if len(body) > in_thread or last > in_thread:
            converted = await encode_in_thread(element, body)
        else:
            converted = element(body)
        elements.append(converted)
        last = len(converted)
        size += last
        if size >= most:
            break
        if turn.over():
            await next_turn()
            turn = Turn()
    return elements


def combined(first: Element | None, then: Element | None) -> Element | None:
    """A conversion that applies both, one after the other."""
    if first is None or then is None:
        return first or then
    return lambda body: then(first(body))


class JsonLayout:
    separator: Final = b","
    in_thread: Final = 64 * 1024
    element: Final = None

    def __init__(self, type_: ListType) -> None:
        self._type = type_

    def head(self, metadata: Object | None) -> bytes:
        return dumps(self._type.before(metadata))[:-1] + b',"%b":[' % self._type.elements.encode()

    def tail(self, metadata: Object | None) -> bytes:
        return b"]}\n" if metadata is None else b'],"metadata":%b}\n' % dumps(self._type.metadata(metadata))


class PrettyLayout:
    separator: Final = b",\n    "
    in_thread: Final = 64 * 1024

    def __init__(self, type_: ListType) -> None:
        self._type = type_

    @staticmethod
    def element(element: bytes) -> bytes:
        return pretty(element).replace(b"\n", b"\n    ")

    def head(self, metadata: Object | None) -> bytes:
        before = dumps(self._type.before(metadata), option=orjson.OPT_INDENT_2)
        return before[:-2] + b',\n  "%b": [\n    ' % self._type.elements.encode()

    def tail(self, metadata: Object | None) -> bytes:
        if metadata is None:
            return b"\n  ]\n}"
        after = dumps({"metadata": self._type.metadata(metadata)}, option=orjson.OPT_INDENT_2)
        return b"\n  ]," + after[1:]


class YamlLayout:
    """Keys are sorted: `items` comes before the metadata, `rows` after it."""

    separator: Final = b""
    in_thread: Final = 16 * 1024

    def __init__(self, type_: ListType) -> None:
        self._type = type_
        self._after: Object = {}

    @staticmethod
    def element(element: bytes) -> bytes:
        return yaml.dump([orjson.loads(element)])

    def head(self, metadata: Object | None) -> bytes:
        name, fields = self._type.elements, self._type.before(metadata)
        self._after = {key: value for key, value in fields.items() if key > name}
        before = {key: value for key, value in fields.items() if key < name}
        return yaml.dump(before) + f"{name}:\n".encode()

    def tail(self, metadata: Object | None) -> bytes:
        after = (
            self._after if metadata is None else {**self._after, "metadata": self._type.metadata(metadata)}
        )
        return yaml.dump(after) if after else b""


class CborLayout:
    """The number of elements comes before them; a list that is sent in parts has an array of unknown length instead."""

    separator: Final = b""
    in_thread: Final = 32 * 1024

    def __init__(self, type_: ListType, encoder: CborEncoder) -> None:
        self._type = type_
        self._encoder = encoder
        self._plan = encoder.items_plan(type_.api_version, type_.kind)

    def element(self, element: bytes) -> bytes:
        return self._encoder.value(orjson.loads(element), self._plan)

    def head(self, metadata: Object | None) -> bytes:
        return self._head(metadata, extra=metadata is None) + b"\x9f"

    def tail(self, metadata: Object | None) -> bytes:
        if metadata is None:
            return b"\xff"
        value = self._encoder.value
        return b"\xff" + value("metadata") + value(self._type.metadata(metadata))

    def document(self, metadata: Object, elements: list[bytes]) -> bytes:
        return b"".join([self._head(metadata, extra=False), cbor_head(ARRAY, len(elements)), *elements])

    def _head(self, metadata: Object | None, *, extra: bool) -> bytes:
        """Everything before the elements; `extra`: a member follows them."""
        fields, value = self._type.before(metadata), self._encoder.value
        members = [value(name) + value(member) for name, member in fields.items()]
        start = SELF_DESCRIBED + cbor_head(MAP, len(fields) + 1 + extra)
        return start + b"".join(members) + value(self._type.elements)


Layout = JsonLayout | PrettyLayout | YamlLayout | CborLayout


class ProtobufLayout:
    """A message starts with its length, so all elements must be known."""

    separator: Final = b""
    in_thread: Final = 32 * 1024

    def __init__(self, type_: ListType, encoder: ProtobufEncoder) -> None:
        """Raises NoProtobufType if the list has no protobuf message."""
        self._type = type_
        self._write = encoder.lenient_writer(type_.api_version, type_.kind)

    def element(self, element: bytes) -> bytes:
        return self._write({self._type.elements: [load(element)]})

    def document(self, metadata: Object, elements: list[bytes]) -> bytes:
        message = b"".join([self._write({"metadata": metadata}), *elements])
        return wrap(self._type.api_version, self._type.kind, message)
