"""Finds stored objects whose bytes are no object in JSON, so that no list or watch contains them.

Lists join bytes as they are stored: one such object would make a list of a million others unreadable. No server stores
it; a tool that wrote to the journal itself may have. So the first list of a type compares each object, and how far it
came is remembered: later lists, and gets, compare nothing. What this server writes itself needs no comparison;
what it copies from another journal gets one (`StoredJson.forget`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import orjson

from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.journal.records import Event, Row
from rewound.journal.search import Match

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace and name
Scope = tuple[int, str | None]  # type and namespace; None: all
# After the last key of a scope.
END: Final[Key] = ("\U0010ffff", "")


class _Skipped(msgspec.Struct):
    """An object whose members are skipped: the fastest way to find out whether it is one."""


_skip = msgspec.json.Decoder(_Skipped).decode
# More might nest deeper than most clients read, so that the slower parser decides, which has their limits. For a large
# object it would hold the event loop: the depth of one is not compared.
_FEW_CONTAINERS: Final = 500


def is_json_object(body: bytes) -> bool:
    """Whether it is an object with members: responses add others after its brace."""
    if body[:1] != b"{" or (body[1:2] != b'"' and body[1:].lstrip(b" \t\r\n")[:1] != b'"'):
        return False
    if len(body) <= LARGE_BYTES and body.count(b"{") + body.count(b"[") > _FEW_CONTAINERS:
        return _is_object(body)
    try:
        _skip(body)
        return body.isascii() or bool(body.decode())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    except RecursionError:  # the stack is deep already
        return _is_object(body)


def _is_object(body: bytes) -> bool:
    try:
        return type(orjson.loads(body)) is dict
    except ValueError:
        return False


class StoredJson:
    """Which objects of the journal are known to be JSON."""

    def __init__(self) -> None:
        self._checked: dict[Scope, Key] = {}  # the last key up to which all objects of a scope are JSON
        self._reported: set[int] = set()  # hashes of bodies

    def is_checked(self, type_id: int, namespace: str | None) -> bool:
        """Whether all objects of a type or of one of its namespaces are JSON."""
        checked = self._checked
        return bool(checked) and (
            checked.get((type_id, None)) == END or checked.get((type_id, namespace)) == END
        )

    def passed(self, type_id: int, namespace: str | None, after: Key | None, last: Key | None) -> None:
        """All objects after a key, up to another (None: to the end), are JSON."""
        before = self._checked.get((type_id, namespace))
        if after is None or (before is not None and after <= before):
            self._checked[type_id, namespace] = END if last is None else max(last, before or last)

    def forget(self, events: Sequence[Event]) -> None:
        """Compare the types again that got an object which is no JSON: from a journal that this one copies."""
        types = {event.type_id for event in events if not event.removed and not is_json_object(event.body)}
        if types:
            self._checked = {scope: last for scope, last in self._checked.items() if scope[0] not in types}

    def report(self, rows: Iterable[tuple[str, str, Row]], what: str, failed: Sequence[bytes]) -> None:
        """Write the names of objects that are no JSON to the log, once each. `rows` has them."""
        wanted = {body for body in failed if hash(body) not in self._reported}
        self._reported.update(map(hash, wanted))
        for namespace, name, row in rows if wanted else ():
            if bytes(row.body) in wanted:
                where = f"{namespace}/{name}" if namespace else name
                logger.warning(
                    "%s %s is left out of lists: its bytes are no object in JSON; delete it", what, where
                )
                wanted.discard(bytes(row.body))
                if not wanted:
                    return


class Comparison:
    """The `Match` of one step of a list: JSON first, then its selector. `failed`: bodies that are no JSON."""

    __slots__ = ("_match", "failed")

    def __init__(self, match: Match | None) -> None:
        self._match = match
        self.failed: list[bytes] = []

    def __call__(self, facts: bytes, body: bytes) -> bool:
        if not is_json_object(body):
            self.failed.append(body)
            return False
        return self._match is None or self._match(facts, body)
