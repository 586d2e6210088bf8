"""Encodes JSON documents in CBOR, as Kubernetes writes them.

Texts and names are byte strings, numbers have their shortest form, and bytes, which are base64 in JSON, are byte
strings with tag 22. Which members of a document are bytes is known from the declaration of its type. Every document
starts with the tag of self-described CBOR, also the object inside a watch event.
"""

from __future__ import annotations

import struct as binary
from base64 import b64decode
from functools import lru_cache
from typing import Any, Final

import orjson

from rewound.actors.kinds.schema.fields import BYTES, ListOf, MapOf, Struct, Type
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder
from rewound.gateway.wire.worker_threads import encode_in_thread

SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
ARRAY, MAP = 4, 5
_BYTE_STRING: Final = 2
_BASE64: Final = b"\xd6"  # tag 22
_SIZES: Final = ((1 << 8, 24, ">BB"), (1 << 16, 25, ">BH"), (1 << 32, 26, ">BI"), (1 << 64, 27, ">BQ"))
# About a millisecond of conversion, which other requests can wait for.
_THREAD_THRESHOLD: Final = 32 * 1024

# Where a type has bytes: True if the value is bytes, a dictionary by member, or a list with the plan of all members of
# a list or map.
_Plan = bool | dict[str, Any] | list[Any]


class CborEncoder:
    def __init__(self, types: ProtobufEncoder) -> None:
        self._types = types

    async def from_json_in_thread(self, body: bytes) -> bytes:
        if len(body) <= _THREAD_THRESHOLD:
            return self.from_json(body)
        return await encode_in_thread(self.from_json, body)

    def from_json(self, body: bytes) -> bytes:
        document = orjson.loads(body)
        return SELF_DESCRIBED + self.value(document, self.plan_of(document))

    def event(self, type_: str, body: bytes) -> bytes:
        """A watch event; `body` is its object as JSON."""
        return b"".join((SELF_DESCRIBED, _EVENT, _string(type_), _OBJECT, self.from_json(body)))

    def plan_of(self, document: Any) -> _Plan:
        if not isinstance(document, dict):
            return False
        struct = self._types.struct_of(document.get("apiVersion", ""), document.get("kind", ""))
        return False if struct is None else _bytes_in(struct)

    def items_plan(self, api_version: str, kind: str) -> _Plan:
        """The plan of the items of a list."""
        struct = self._types.struct_of(api_version, kind)
        plan = False if struct is None else _bytes_in(struct)
        return plan["items"][0] if isinstance(plan, dict) and "items" in plan else False

    def value(self, value: Any, plan: _Plan = False) -> bytes:
        pieces: list[bytes] = []
        _write(value, plan, pieces)
        return b"".join(pieces)


def head(major: int, number: int) -> bytes:
    """The first bytes of an item: its type, and its value or size."""
    if number < 24:
        return bytes((major << 5 | number,))
    for end, info, form in _SIZES:
        if number < end:
            return binary.pack(form, major << 5 | info, number)
    raise OverflowError(number)


def _string(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return head(_BYTE_STRING, len(content)) + content


_EVENT, _OBJECT = head(MAP, 2) + _string("type"), _string("object")
_CONSTANTS: Final = {None: b"\xf6", True: b"\xf5", False: b"\xf4"}


def _write(value: Any, plan: _Plan, pieces: list[bytes]) -> None:
    kind = type(value)
    if kind is str:
        pieces.append(_bytes(value) if plan is True else _string(value))
    elif kind is dict:
        pieces.append(head(MAP, len(value)))
        of_all = plan[0] if type(plan) is list else None
        by_name = plan if type(plan) is dict else {}
        for name, member in value.items():
            pieces.append(_string(name))
            _write(member, by_name.get(name, False) if of_all is None else of_all, pieces)
    elif kind is list:
        pieces.append(head(ARRAY, len(value)))
        plan = plan[0] if type(plan) is list else False
        for item in value:
            _write(item, plan, pieces)
    elif kind is float:
        pieces.append(_float(value))
    elif value is None or kind is bool:
        pieces.append(_CONSTANTS[value])
    else:
        pieces.append(head(0, value) if value >= 0 else head(1, -1 - value))


def _bytes(text: str) -> bytes:
    content = b64decode(text)
    return _BASE64 + head(_BYTE_STRING, len(content)) + content


def _float(number: float) -> bytes:
    """The shortest form that has the same value."""
    for first, form in ((b"\xf9", ">e"), (b"\xfa", ">f")):
        try:
            packed = binary.pack(form, number)
        except OverflowError:
            continue
        if binary.unpack(form, packed)[0] == number:
            return first + packed
    return b"\xfb" + binary.pack(">d", number)


@lru_cache(maxsize=4096)
def _bytes_in(struct: Struct) -> _Plan:
    return _plan(struct, ())


def _plan(type_: Type, around: tuple[Struct, ...]) -> _Plan:
    """No type that contains itself has bytes."""
    if type_ is BYTES:
        return True
    if isinstance(type_, ListOf | MapOf):
        inner = _plan(type_.item if isinstance(type_, ListOf) else type_.value, around)
        return [inner] if inner else False
    if not isinstance(type_, Struct) or type_ in around:
        return False
    found = {field.name: _plan(field.type, (*around, type_)) for field in type_.fields}
    return {name: plan for name, plan in found.items() if plan} or False
