"""The protobuf messages of etcd's API (etcdserverpb and mvccpb), with the numbers of their fields.

`*_request` encodes requests, `*_result` decodes replies. A message of thousands of keys is decoded in turns. Fields
that are zero or empty are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import trio

from rewound.actors.etcd.api import (
    Compare,
    DeleteRange,
    DeleteResult,
    Event,
    Get,
    KeyValue,
    Member,
    MemberStatus,
    Operation,
    OperationResult,
    Put,
    PutResult,
    RangeResult,
    TxnResult,
    WatchResponse,
)
from rewound.actors.runtime.turns import Turn
from rewound.gateway.wire.protobuf.wire_format import (
    LEN,
    VARINT,
    MalformedMessage,
    delimited,
    read_fields,
    read_varint,
    tag,
    varint,
)

_T = TypeVar("_T")

_TARGETS: Final = {"version": (0, 4), "create_revision": (1, 5), "mod_revision": (2, 6), "value": (3, 7)}
_OPERATORS: Final = {"=": 0, ">": 1, "<": 2, "!=": 3}
_AT_ONCE: Final = 100  # keys between two looks at the clock


def _number(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value) if value else b""


def _bytes(number: int, value: bytes) -> bytes:
    return delimited(number, value) if value else b""


# Requests.


def txn_request(
    compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]
) -> bytes:
    return b"".join(
        (
            *(delimited(1, _compare(one)) for one in compares),
            *(delimited(2, _operation(one)) for one in then),
            *(delimited(3, _operation(one)) for one in otherwise),
        )
    )


def _compare(one: Compare) -> bytes:
    target, number = _TARGETS[one.target]
    compared = _number(1, _OPERATORS[one.operator]) + _number(2, target) + delimited(3, one.key)
    if isinstance(one.given, bytes):
        return compared + delimited(number, one.given)
    return compared + tag(number, VARINT) + varint(one.given)


def _operation(one: Operation) -> bytes:
    if isinstance(one, Put):
        return delimited(2, _bytes(1, one.key) + _bytes(2, one.value) + _number(3, one.lease))
    if isinstance(one, DeleteRange):
        return delimited(3, _bytes(1, one.key) + _bytes(2, one.end))
    return delimited(1, range_request(one, serializable=False))


def range_request(get: Get, *, serializable: bool) -> bytes:
    return b"".join(
        (
            _bytes(1, get.key),
            _bytes(2, get.end),
            _number(3, get.limit),
            _number(4, get.revision),
            _number(7, serializable),
            _number(8, get.keys_only),
            _number(9, get.count_only),
        )
    )


def watch_request(key: bytes, end: bytes, start_revision: int, *, prev_kv: bool) -> bytes:
    """Large responses may come in fragments."""
    created = _bytes(1, key) + _bytes(2, end) + _number(3, start_revision)
    return delimited(1, created + _number(6, prev_kv) + _number(8, True))


def number_request(value: int) -> bytes:
    """A request with one number: of a compaction (the revision), or of a lease (its seconds, or its id)."""
    return _number(1, value)


def authenticate_request(name: str, password: str) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, password.encode())


# Replies.


class Header(NamedTuple):
    cluster_id: int = 0
    member_id: int = 0
    revision: int = 0
    raft_term: int = 0  # grows with each election


def header_of(raw: bytes) -> Header:
    """The header, which is the first field of every reply."""
    return _header(raw[2 : 2 + raw[1]]) if raw[:1] == b"\x0a" and raw[1] < 128 else Header()


def _header(raw: bytes) -> Header:
    get = _fields(raw).get
    return Header(get(1, 0), get(2, 0), get(3, 0), get(4, 0))


def _fields(raw: bytes) -> dict[int, Any]:
    """Decode a message without repeated fields, fast: there are thousands of keys with six fields each."""
    found: dict[int, Any] = {}
    at, end = 0, len(raw)
    try:
        while at < end:
            key = raw[at]
            size = raw[at + 1]
            at += 2
            if size > 127:
                size, at = read_varint(raw, at - 1)
            if key & 135 == VARINT:  # numbers below 16, in one byte
                found[key >> 3] = size
            elif key & 135 == LEN:
                found[key >> 3] = raw[at : at + size]
                at += size
            else:
                return {number: value for number, _, value in read_fields(raw)}
    except IndexError:
        at = -1
    if at != end:
        raise MalformedMessage("a field is longer than its message")
    return found


def _key_value(raw: bytes) -> KeyValue:
    get = _fields(raw).get
    return KeyValue(get(1, b""), get(5, b""), get(2, 0), get(3, 0), get(4, 0), get(6, 0))


def _event(raw: bytes) -> Event:
    get = _fields(raw).get
    previous = get(3)
    return Event(get(1, 0) == 1, _key_value(get(2, b"")), None if previous is None else _key_value(previous))


async def _in_turns(make: Callable[[bytes], _T], messages: Sequence[bytes]) -> tuple[_T, ...]:
    """Yield the items, with a checkpoint now and then: the event loop serves others."""
    if len(messages) <= _AT_ONCE:
        return tuple(map(make, messages))
    made: list[_T] = []
    turn = Turn()
    for start in range(0, len(messages), _AT_ONCE):
        made += map(make, messages[start : start + _AT_ONCE])
        if turn.over():
            await trio.lowlevel.checkpoint()
            turn = Turn()
    return tuple(made)


class WatchReply(NamedTuple):
    header: Header
    events: list[bytes]
    partial: bool
    cancelled: bool
    compact_revision: int
    reason: str  # why it was cancelled


def watch_reply(raw: bytes) -> WatchReply:
    events: list[bytes] = []
    rest: dict[int, Any] = {}
    for number, _, value in read_fields(raw):
        if number == 11:
            events.append(value)
        else:
            rest[number] = value
    get = rest.get
    reason = get(6, b"").decode("utf-8", "replace")
    return WatchReply(_header(get(1, b"")), events, bool(get(7)), bool(get(4)), get(5, 0), reason)


async def watch_response(reply: WatchReply) -> WatchResponse:
    return WatchResponse(await _in_turns(_event, reply.events), reply.header.revision, reply.partial)


async def range_result(raw: bytes) -> RangeResult:
    pairs, get = _pairs(raw)
    revision = _header(get(1, b"")).revision
    return RangeResult(await _in_turns(_key_value, pairs), revision, bool(get(3)), get(4, 0))


def _pairs(raw: bytes) -> tuple[list[bytes], Callable[..., Any]]:
    """The keys of a range, and its other fields."""
    pairs: list[bytes] = []
    rest: dict[int, Any] = {}
    for number, _, value in read_fields(raw):
        if number == 2:
            pairs.append(value)
        else:
            rest[number] = value
    return pairs, rest.get


def txn_result(raw: bytes) -> TxnResult:
    succeeded, responses, revision = False, [], 0
    for number, _, value in read_fields(raw):
        if number == 1:
            revision = _header(value).revision
        elif number == 2:
            succeeded = bool(value)
        elif number == 3:
            responses.append(_operation_result(value, revision))
    return TxnResult(succeeded, revision, tuple(responses))


def _operation_result(raw: bytes, revision: int) -> OperationResult:
    ((number, value),) = _fields(raw).items()
    if number == 2:
        return PutResult(revision)
    if number == 3:
        return DeleteResult(revision, _fields(value).get(2, 0))
    pairs, get = _pairs(value)
    return RangeResult(tuple(map(_key_value, pairs)), revision, bool(get(3)), get(4, 0))


def grant_result(raw: bytes) -> int:
    """The id of the lease."""
    lease: int = _fields(raw)[2]
    return lease


def keep_alive_result(raw: bytes) -> int:
    """The remaining seconds; 0 if the lease has expired."""
    seconds: int = _fields(raw).get(3, 0)
    return seconds


def authenticate_result(raw: bytes) -> str:
    token: bytes = _fields(raw).get(2, b"")
    return token.decode()


def status_result(endpoint: str, raw: bytes) -> MemberStatus:
    alarms = tuple(value.decode("utf-8", "replace") for number, _, value in read_fields(raw) if number == 8)
    get = _fields(raw).get
    header = _header(get(1, b""))
    return MemberStatus(
        endpoint,
        "",
        header.cluster_id,
        header.member_id,
        get(2, b"").decode(),
        get(4, 0),
        header.revision,
        get(6, 0),
        get(5, 0),
        get(3, 0),
        get(9, 0),
        bool(get(10)),
        alarms,
    )


def members_result(raw: bytes) -> tuple[Member, ...]:
    return tuple(_member(value) for number, _, value in read_fields(raw) if number == 2)


def _member(raw: bytes) -> Member:
    urls: dict[int, list[str]] = {3: [], 4: []}
    rest: dict[int, Any] = {}
    for number, _, value in read_fields(raw):
        if number in urls:
            urls[number].append(value.decode())
        else:
            rest[number] = value
    get = rest.get
    return Member(get(1, 0), get(2, b"").decode(), tuple(urls[3]), tuple(urls[4]), bool(get(5)))
