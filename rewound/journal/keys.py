"""Key layouts of the databases: big-endian, so that LMDB's byte order is the order of offsets and lists.

    events     offset:8                              2024        -> 00000000000007e8
    state      type:2 namespace 00 name              1, "a", "x" -> 0001 61 00 78
    by_type    type:2 offset:8
    by_object  type:2 namespace 00 name 00 offset:8  (names contain no zero byte: the last 9 bytes are always the
                                                      separator and the offset)
    counts     type:2                                all live objects of a type
               type:2 namespace 00                   those of one namespace ("" = cluster-scoped)

The separator sorts before every letter a name may have, so a scan of a type runs in byte order of namespace,
then name: the order of lists. Rejected: escaping, because the API accepts no name that needs it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

from rewound.journal import fields
from rewound.journal.errors import BadName, NameTooLong

Buffer = bytes | memoryview

# Keys of `meta`; the number of each resource type is under "type:" and its name.
LAYOUT, DIALECT, FLOOR, TYPE_PREFIX = b"layout", b"dialect", b"floor", b"type:"
CLUSTER_ID = b"id"  # 16 bytes, as in the identity file
CHECK = b"check"  # checksum of all records of meta (`records.meta_check`)
TIMELINES = b"timelines"  # promotions in this history (`timelines`); absent if there are none
KUBERNETES = b"kubernetes"  # the version whose form stored objects have; absent: 1.25
MIGRATED = b"migrated"  # the offset since which all objects have that form; absent: since the first
THINNED = b"thinned"  # where events that only renew were dropped, by type (`thinning`); absent: nowhere
CUTS = b"cuts"  # whose oldest events were dropped because they took too much room (`cuts`); absent: none were
FOLLOWS = b"follows"  # present in the folder of a standby until it is promoted
PROBE = b"probe"  # written and deleted again to find out whether the disk accepts writes

MAX_KEY = 511  # LMDB's compiled-in limit
# Keys of by_object are the longest: this is what type, two separators and offset leave for the names.
MAX_NAMES = MAX_KEY - 2 - 1 - 1 - 8
MAX_TYPES = 0xFFFF
MAX_TYPE_NAME = MAX_KEY - len(TYPE_PREFIX)
MAX_DIALECT = 16  # length of the field in the identity file
MAX_OFFSET = 0xFFFF_FFFF_FFFF_FFFF
# Of an event. Leaves room for versions that count nanoseconds since 1970, and for sums and blocks of offsets in 63
# bits.
LARGEST_OFFSET = 1 << 62

_TYPE = struct.Struct(">H")
_OFFSET = struct.Struct(">Q")
OFFSET_SIZE = _OFFSET.size
_TYPE_OFFSET = struct.Struct(">HQ")

pack_offset = _OFFSET.pack
pack_type = _TYPE.pack
by_type = _TYPE_OFFSET.pack


def offset_of(key: Buffer) -> int:
    """The offset at the end of a key of events, by_type or by_object."""
    found: tuple[Any, ...] = _OFFSET.unpack_from(key, len(key) - 8)
    return int(found[0])


def check_kubernetes(field: str, value: Any) -> str:
    """Check a version of Kubernetes that another program wrote; empty: 1.25. Raises ValueError."""
    if not re.fullmatch(r"(1\.[0-9]{1,3})?", fields.text(field, value), re.ASCII):
        raise ValueError(f"{field}: expected a version such as 1.36, found {fields.described(value)}")
    return str(value)


def of_object(type_id: int, namespace: str, name: str) -> bytes:
    """The state key of an object. Raises NameTooLong or BadName if its names cannot be stored."""
    key = find_object(type_id, namespace, name)
    if key is not None:
        return key
    try:
        size = len((namespace + name).encode())
    except UnicodeEncodeError:
        size = 0
    if size > MAX_NAMES:
        raise NameTooLong(size, MAX_NAMES)
    raise BadName(f"{namespace}/{name}")


def find_object(type_id: int, namespace: str, name: str) -> bytes | None:
    """The state key of an object; None if its names cannot be stored."""
    if not name or "\0" in name or "\0" in namespace:
        return None
    try:
        names = f"{namespace}\0{name}".encode()
    except UnicodeEncodeError:
        return None
    return pack_type(type_id) + names if len(names) <= MAX_NAMES + 1 else None


def names_of(key: bytes) -> tuple[str, str]:
    """The namespace and name in a state key."""
    namespace, _, name = key[2:].partition(b"\0")
    return namespace.decode(), name.decode()


def scope(type_id: int, namespace: str | None) -> bytes | None:
    """The prefix of the state keys of a type, or of one of its namespaces; also their key in counts."""
    if namespace is None:
        return pack_type(type_id)
    try:
        encoded = namespace.encode()
    except UnicodeEncodeError:
        return None
    if 0 in encoded or len(encoded) > MAX_NAMES:
        return None
    return pack_type(type_id) + encoded + b"\0"


def pack_namespace(type_id: int, namespace: str) -> bytes:
    """The scope of the namespace of a stored object."""
    return pack_type(type_id) + namespace.encode() + b"\0"


def scopes_of(key: bytes) -> tuple[bytes, bytes]:
    """The two keys in counts under which an object is counted: its type and its namespace."""
    return key[:2], key[: key.index(b"\0", 2) + 1]


def after(type_id: int, last: tuple[str, str]) -> bytes:
    """The smallest key after that of an object, which need not exist or be storable."""
    namespace, name = (part.encode(errors="replace") for part in last)
    return (pack_type(type_id) + b"%b\0%b\0" % (namespace, name))[:MAX_KEY]


def by_object(state_key: bytes, offset: int) -> bytes:
    return b"%b\0%b" % (state_key, pack_offset(offset))


def check_types(field: str, types: Any, highest: int = MAX_TYPES) -> dict[str, int]:
    """Check the names and numbers of types that another program sends. Raises ValueError naming the wrong one."""
    names: dict[int, str] = {}
    for name, number in fields.mapping(field, types).items():
        where = f"{field}: {fields.text(f'{field}: a name', name, MAX_TYPE_NAME)}"
        if len(name.encode()) > MAX_TYPE_NAME or "\0" in name:
            raise ValueError(f"{where}: no type can have this name")
        fields.number(where, number, 1, highest)
        if number in names:
            raise ValueError(f"{where}: has the number {number}, which {names[number]} has too")
        names[number] = name
    found: dict[str, int] = types
    return found


def types_in(meta: Mapping[bytes, bytes]) -> dict[str, int]:
    """The numbers of the types by name, from the records of the meta database."""
    size = len(TYPE_PREFIX)
    return {
        key[size:].decode(errors="backslashreplace"): int.from_bytes(value, "big")
        for key, value in meta.items()
        if key.startswith(TYPE_PREFIX)
    }
