"""The JSON documents of etcd's API: bytes are base64, 64-bit numbers are strings, and what is zero or empty is absent.

The client sends what `*_request` returns; `*_result` and `events_of` read what etcd returns. A document of thousands of
keys is read in turns.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import orjson
import trio

from actors.etcd.api import (
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
)
from actors.runtime.turns import Turn

_T = TypeVar("_T")
Document = dict[str, Any]

_TARGETS: Final = {
    "mod_revision": "MOD",
    "create_revision": "CREATE",
    "version": "VERSION",
    "value": "VALUE",
}
_OPERATORS: Final = {"=": "EQUAL", "!=": "NOT_EQUAL", "<": "LESS", ">": "GREATER"}
_AT_ONCE: Final = 100  # keys between two looks at the clock


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


# Requests.


def txn_request(
    compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]
) -> bytes:
    document: Document = {}
    if compares:
        document["compare"] = [_compare(one) for one in compares]
    if then:
        document["success"] = [_operation(one) for one in then]
    if otherwise:
        document["failure"] = [_operation(one) for one in otherwise]
    return orjson.dumps(document)


def _compare(one: Compare) -> Document:
    given = _text(one.given) if isinstance(one.given, bytes) else str(one.given)
    return {
        "key": _text(one.key),
        "target": _TARGETS[one.target],
        "result": _OPERATORS[one.operator],
        one.target: given,
    }


def _operation(one: Operation) -> Document:
    if isinstance(one, Put):
        put: Document = {"key": _text(one.key), "value": _text(one.value)}
        if one.lease:
            put["lease"] = str(one.lease)
        return {"request_put": put}
    if isinstance(one, DeleteRange):
        return {"request_delete_range": _range(one.key, one.end)}
    return {"request_range": _get(one)}


def range_request(get: Get, *, serializable: bool) -> bytes:
    document = _get(get)
    if serializable:
        document["serializable"] = True
    return orjson.dumps(document)


def _get(get: Get) -> Document:
    document: Document = _range(get.key, get.end)
    if get.revision:
        document["revision"] = str(get.revision)
    if get.limit:
        document["limit"] = str(get.limit)
    if get.keys_only:
        document["keys_only"] = True
    if get.count_only:
        document["count_only"] = True
    return document


def _range(key: bytes, end: bytes) -> Document:
    return {"key": _text(key), "range_end": _text(end)} if end else {"key": _text(key)}


def watch_request(key: bytes, end: bytes, start_revision: int, *, prev_kv: bool) -> bytes:
    create = _range(key, end) | {"start_revision": str(start_revision), "fragment": True}
    if prev_kv:
        create["prev_kv"] = True
    return orjson.dumps({"create_request": create})


# Replies.


def revision_of(document: Document) -> int:
    return int(document.get("header", {}).get("revision", 0))


def term_of(document: Document) -> int:
    """Of raft: it grows with each election."""
    return int(document.get("header", {}).get("raft_term", 0))


def _key_value(document: Document) -> KeyValue:
    get = document.get
    return KeyValue(
        a2b_base64(document["key"]),
        a2b_base64(get("value", "")),
        int(get("create_revision", 0)),
        int(get("mod_revision", 0)),
        int(get("version", 0)),
        int(get("lease", 0)),
    )


def _event(document: Document) -> Event:
    previous = document.get("prev_kv")
    return Event(
        document.get("type") == "DELETE",
        _key_value(document["kv"]),
        None if previous is None else _key_value(previous),
    )


async def events_of(document: Document) -> tuple[Event, ...]:
    return tuple(await _in_turns(_event, document.get("events", ())))


async def range_result(document: Document) -> RangeResult:
    pairs = await _in_turns(_key_value, document.get("kvs", ()))
    return _range_result(document, pairs, revision_of(document))


async def _in_turns(make: Callable[[Document], _T], documents: Sequence[Document]) -> list[_T]:
    """The loop serves others between turns."""
    if len(documents) <= _AT_ONCE:
        return list(map(make, documents))
    made: list[_T] = []
    turn = Turn()
    for start in range(0, len(documents), _AT_ONCE):
        made += map(make, documents[start : start + _AT_ONCE])
        if turn.over():
            await trio.lowlevel.checkpoint()
            turn = Turn()
    return made


def _range_result(document: Document, pairs: list[KeyValue], revision: int) -> RangeResult:
    return RangeResult(tuple(pairs), revision, document.get("more", False), int(document.get("count", 0)))


def txn_result(document: Document) -> TxnResult:
    revision = revision_of(document)
    responses = tuple(_operation_result(one, revision) for one in document.get("responses", ()))
    return TxnResult(document.get("succeeded", False), revision, responses)


def _operation_result(document: Document, revision: int) -> OperationResult:
    if "response_put" in document:
        return PutResult(revision)
    if "response_delete_range" in document:
        return DeleteResult(revision, int(document["response_delete_range"].get("deleted", 0)))
    found = document["response_range"]
    return _range_result(found, list(map(_key_value, found.get("kvs", ()))), revision)


def status_result(endpoint: str, document: Document) -> MemberStatus:
    header, get = document.get("header", {}), document.get
    return MemberStatus(
        endpoint,
        "",
        int(header.get("cluster_id", 0)),
        int(header.get("member_id", 0)),
        get("version", ""),
        int(get("leader", 0)),
        int(header.get("revision", 0)),
        int(get("raftTerm", 0)),
        int(get("raftIndex", 0)),
        int(get("dbSize", 0)),
        int(get("dbSizeInUse", 0)),
        get("isLearner", False),
        tuple(get("errors", ())),
    )


def members_result(document: Document) -> tuple[Member, ...]:
    return tuple(
        Member(
            int(one["ID"]),
            one.get("name", ""),
            tuple(one.get("peerURLs", ())),
            tuple(one.get("clientURLs", ())),
            one.get("isLearner", False),
        )
        for one in document.get("members", ())
    )
