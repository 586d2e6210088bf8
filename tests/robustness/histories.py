"""Histories written by hand, to prove that validators find what they are there to find.

told = Told()
told.life().create("r0", version=5).delete("r0").found()        # one life; time passes with every step
"""

from __future__ import annotations

from typing import Any

from tests.robustness.history import CREATE, DELETE, GET, REPLACE, History, Life, Operation, Page, Walk
from tests.robustness.ledger import Entry, Ledger
from tests.robustness.objects import Content, Document, Key, bare, document, make_token


def key(name: str = "r0", plural: str = "configmaps") -> Key:
    return Key(plural, "default", name)


def shown(
    content: Content, version: int, *, name: str = "r0", uid: str = "u1", deleting: bool = False
) -> Document:
    """An object as a server answers it."""
    body = document(key(name), content, version)
    body["metadata"] |= {"namespace": "default", "uid": uid}
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    return body


def content(number: int, finalizers: tuple[str, ...] = (), color: str = "red") -> Content:
    return Content(make_token(number, 10), color, finalizers)


class Writer:
    """Writes a history down, one request after another unless told otherwise."""

    def __init__(self) -> None:
        self.history = History()
        self._now = 0.0
        self._number = 0

    def life(self, found: dict[Key, Document] | None = None, found_at: int = 0) -> Life:
        life = Life(len(self.history.lives), "by hand", found=found or {}, found_at=found_at)
        self.history.lives.append(life)
        return life

    def request(self, verb: str, name: str = "r0", **given: Any) -> Operation:
        """Sent now, and answered before the next one is sent."""
        self._now += 1
        self._number += 1
        values = {"sent": self._now, "ended": self._now + 0.5, **given}
        operation = Operation(self._number, 0, verb, key(name), **values)
        if operation.status is None:
            operation.ended = float("inf")
        self.history.lives[-1].operations.append(operation)
        return operation

    def create(self, version: int, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        wanted = content(self._number + 1, given.pop("finalizers", ()))
        answer = shown(wanted, version, name=name, uid=uid)
        return self.request(CREATE, name, content=wanted, status=201, answer=answer, **given)

    def replace(self, version: int, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        wanted = content(self._number + 1, given.pop("finalizers", ()))
        answer = shown(wanted, version, name=name, uid=uid)
        return self.request(REPLACE, name, content=wanted, status=200, answer=answer, **given)

    def unanswered(self, verb: str, name: str = "r0", **given: Any) -> Operation:
        wanted = None if verb == DELETE else content(self._number + 1)
        return self.request(verb, name, content=wanted, **given)

    def delete(self, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        answer = {"kind": "Status", "details": {"uid": uid}}
        return self.request(DELETE, name, status=200, answer=answer, **given)

    def get(self, body: Document | None, name: str = "r0", **given: Any) -> Operation:
        status, answer = (404, {}) if body is None else (200, body)
        return self.request(GET, name, status=status, answer=answer, **given)

    def listed(self, *pages: tuple[int, list[Document]], **given: Any) -> Walk:
        walk = Walk("configmaps", None, "", 0, **given)
        for number, (version, items) in enumerate(pages, 1):
            self._now += 1
            token = "more" if number < len(pages) else ""
            walk.pages.append(Page(self._now, self._now + 0.5, version, items, token))
        self.history.lives[-1].walks.append(walk)
        return walk

    def log(self, *entries: Entry, **given: Any) -> None:
        """What the journal of the newest life says; its rows follow unless given."""
        head = entries[-1].offset if entries else 0
        ledger = Ledger(head, entries=entries, **given)
        rows = given.get("rows", ledger.at(head) if head >= ledger.floor else {})
        self.history.lives[-1].ledger = Ledger(head, entries=entries, **{**given, "rows": rows})


def entry(body: Document, *, removed: bool = False, name: str = "r0") -> Entry:
    return Entry(int(body["metadata"]["resourceVersion"]), key(name), removed, bare(body))
