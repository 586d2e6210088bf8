"""Histories written by hand, for tests of the validators.

writer = Writer()
writer.run()                # a run of the server
writer.create(version=5)    # each request is sent after the one before got its response
writer.delete()
"""

from __future__ import annotations

from typing import Any

from tests.robustness.history import (
    CREATE,
    DELETE,
    GET,
    REPLACE,
    History,
    Operation,
    Page,
    PagedList,
    ServerRun,
)
from tests.robustness.journal_contents import Entry, JournalContents
from tests.robustness.objects import Content, Document, Key, bare, document, make_token


def key(name: str = "r0", plural: str = "configmaps") -> Key:
    return Key(plural, "default", name)


def shown(
    content: Content, version: int, *, name: str = "r0", uid: str = "u1", deleting: bool = False
) -> Document:
    """An object as a server returns it."""
    body = document(key(name), content, version)
    body["metadata"] |= {"namespace": "default", "uid": uid}
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    return body


def content(number: int, finalizers: tuple[str, ...] = (), color: str = "red") -> Content:
    return Content(make_token(number, 10), color, finalizers)


class Writer:
    """Builds a history, one request after another unless `sent` and `ended` are given."""

    def __init__(self) -> None:
        self.history = History()
        self._now = 0.0
        self._number = 0

    def run(self, found: dict[Key, Document] | None = None, found_at: int = 0) -> ServerRun:
        run = ServerRun(len(self.history.runs), "by hand", found=found or {}, found_at=found_at)
        self.history.runs.append(run)
        return run

    def request(self, verb: str, name: str = "r0", **given: Any) -> Operation:
        """Sent now; the response comes before the next request is sent."""
        self._now += 1
        self._number += 1
        values = {"sent": self._now, "ended": self._now + 0.5, **given}
        operation = Operation(self._number, 0, verb, key(name), **values)
        if operation.status is None:
            operation.ended = float("inf")
        self.history.runs[-1].operations.append(operation)
        return operation

    def create(self, version: int, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        wanted = content(self._number + 1, given.pop("finalizers", ()))
        response = shown(wanted, version, name=name, uid=uid)
        return self.request(CREATE, name, content=wanted, status=201, response=response, **given)

    def replace(self, version: int, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        wanted = content(self._number + 1, given.pop("finalizers", ()))
        response = shown(wanted, version, name=name, uid=uid)
        return self.request(REPLACE, name, content=wanted, status=200, response=response, **given)

    def without_response(self, verb: str, name: str = "r0", **given: Any) -> Operation:
        wanted = None if verb == DELETE else content(self._number + 1)
        return self.request(verb, name, content=wanted, **given)

    def delete(self, name: str = "r0", uid: str = "u1", **given: Any) -> Operation:
        response = {"kind": "Status", "details": {"uid": uid}}
        return self.request(DELETE, name, status=200, response=response, **given)

    def get(self, body: Document | None, name: str = "r0", **given: Any) -> Operation:
        status, response = (404, {}) if body is None else (200, body)
        return self.request(GET, name, status=status, response=response, **given)

    def listed(self, *pages: tuple[int, list[Document]], **given: Any) -> PagedList:
        paged = PagedList("configmaps", None, "", 0, **given)
        for number, (version, items) in enumerate(pages, 1):
            self._now += 1
            token = "more" if number < len(pages) else ""
            paged.pages.append(Page(self._now, self._now + 0.5, version, items, token))
        self.history.runs[-1].lists.append(paged)
        return paged

    def log(self, *entries: Entry, **given: Any) -> None:
        """Set the journal contents after the newest run; rows are computed unless given."""
        head = entries[-1].offset if entries else 0
        contents = JournalContents(head, entries=entries, **given)
        rows = given.get("rows", contents.at(head) if head >= contents.floor else {})
        self.history.runs[-1].contents = JournalContents(head, entries=entries, **{**given, "rows": rows})


def entry(body: Document, *, removed: bool = False, name: str = "r0") -> Entry:
    return Entry(int(body["metadata"]["resourceVersion"]), key(name), removed, bare(body))
