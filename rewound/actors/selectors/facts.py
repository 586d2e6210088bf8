"""Facts: the labels, selectable fields, uid and owner uids of an object, stored beside its JSON bytes.

The resource actor packs them when it writes, the journal stores the bytes, and selectors and the garbage collector read
them instead of parsing the object. `fields` has every selectable field of the kind, including metadata.name and
metadata.namespace; an empty field is left out, and a missing field counts as empty. Fields of custom kinds may become
selectable after an object was written: `completed` adds them (`LateField`).

Layout, one msgpack array; a later release may only add to it, between the uid and the owners:

    [ [key, -1, value, key, -1, value, ...], [field, -2, value, ...], uid, [owner uid, ...] ]

The numbers are separators: msgpack writes them as the bytes ff and fe, which no UTF-8 text contains. Therefore
the facts of an object contain the bytes of `key, -1, value` exactly if it has that label, and a search for bytes
decides a selector, without unpacking. Rejected: plain maps, where a value followed by the next
key can look like a label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import msgspec
import orjson

LABEL, FIELD = -1, -2  # the separators
_NOTHING = b"\x94\x90\x90\xa0\x90"  # an event whose contents cannot be read has no facts at all


Flat = Sequence[str | int]  # key, separator, value, repeated


def pack_facts(
    labels: Mapping[str, str], fields: Mapping[str, str], uid: str, owners: Sequence[str]
) -> bytes:
    of_labels = [part for key, value in labels.items() for part in (key, LABEL, value)]
    of_fields = [part for field, value in fields.items() if value for part in (field, FIELD, value)]
    return pack((of_labels, of_fields, uid, owners))


def unpack_labels(packed: bytes) -> dict[str, str]:
    flat = msgpack.unpackb(packed or _NOTHING)[0]
    return dict(zip(flat[::3], flat[2::3], strict=True))


def unpack_selectable(packed: bytes) -> tuple[list[Any], list[Any]]:
    """Return labels and fields as they are packed: key, a number, value, repeated."""
    labels, fields, *_ = msgpack.unpackb(packed or _NOTHING)
    return labels, fields


def unpack_uids(packed: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the uid of the object and those in its metadata.ownerReferences."""
    _, _, uid, *_, owners = msgpack.unpackb(packed or _NOTHING)
    return uid, tuple(owners)


def has_owners(packed: bytes) -> bool:
    """Whether the object has owners. They are packed last, and only an empty list ends in the byte of an empty list."""
    return packed[-1:] not in (b"\x90", b"")


class LateField(NamedTuple):
    """A field that the facts of an object may lack although the object has it."""

    name: str
    packed: bytes  # its `field_bytes`
    key: bytes  # only objects whose JSON contains this can have the field; empty: any, because it has a default
    read: Callable[[dict[str, Any]], str]


def completed(facts: bytes, body: bytes, late: Sequence[LateField]) -> bytes:
    """Return the facts with the late fields that they lack, read from the object; an empty body has none."""
    lacks = [one for one in late if facts.find(one.packed) < 0 <= body.find(one.key)]
    if not (lacks and body):
        return facts
    labels, fields, *rest = msgpack.unpackb(facts)
    try:
        stored = orjson.loads(body)
    except orjson.JSONDecodeError:  # of a foreign writer
        return facts
    for one in lacks:
        if value := one.read(stored):
            fields += (one.name, FIELD, value)
    return pack((labels, fields, *rest))


class Completing(msgspec.Struct, frozen=True):
    """`completed` for some late fields, as a value: equal ones add the same."""

    late: tuple[LateField, ...]

    def __call__(self, facts: bytes, body: bytes) -> bytes:
        return completed(facts, body, self.late)


class PackedValue(msgspec.Struct, frozen=True):
    """Reads from facts the value that follows some bytes, as it is packed; empty if they do not contain these."""

    before: bytes  # the bytes of a field, or of a label

    def __call__(self, facts: bytes) -> bytes:
        start = facts.find(self.before)
        if start < 0:
            return b""
        start += len(self.before)
        lead = facts[start]
        if lead < _STR8:  # a short text
            return facts[start : start + 1 + (lead & 31)]
        size = 1 << (lead - _STR8)  # of the length
        end = start + 1 + size + int.from_bytes(facts[start + 1 : start + 1 + size], "big")
        return facts[start:end]


_STR8 = 0xD9  # then a length of one byte; the two after it have lengths of two and four


def packed_value(text: str) -> bytes:
    """What `PackedValue` reads from the facts of objects that have this value."""
    return _packed(text)


def unpack_value(packed: bytes) -> str:
    """The text that `PackedValue` has read."""
    return str(msgpack.unpackb(packed))


def label_bytes(key: str, value: str | None = None) -> bytes:
    """Return bytes that the facts contain exactly if the object has this label. `value` None: with any value."""
    return _packed(key) + _packed(LABEL) + (b"" if value is None else _packed(value))


def field_bytes(field: str, value: str | None = None) -> bytes:
    """Return bytes that the facts contain exactly if the object has this field. `value` None: any but the empty one."""
    return _packed(field) + _packed(FIELD) + (b"" if value is None else _packed(value))


def stored_text(text: str) -> str:
    """Return a text of a selector as facts contain it: without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def pack(facts: tuple[Any, ...]) -> bytes:
    """Pack labels and non-empty fields, the uid and the uids of owners."""
    try:
        packed: bytes = _pack(facts)
    except UnicodeEncodeError:
        packed = _pack_replacing(facts)
    return packed


# Packer reuses its buffer, packb makes one per call. A worker thread packs the facts of large objects: one call of C
# code never releases the interpreter lock.
_pack = msgpack.Packer().pack
_pack_replacing = msgpack.Packer(unicode_errors="replace").pack  # takes half as long again


def _packed(value: object) -> bytes:
    # A selector may contain half of a surrogate pair, which no stored text can: it then matches nothing.
    packed: bytes = msgpack.packb(value, unicode_errors="replace")
    return packed
