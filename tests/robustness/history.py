"""The recorded history: every request with its response and every list with its pages, for each run of the server.

Clients record into the lists of a run; validators only read. An operation without a status got no response: it
may have taken effect or not, at any time until the server ended. One that is not `complete` was only partly sent,
so it must never take effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.robustness.journal_contents import JournalContents
from tests.robustness.objects import Content, Document, Key, author_of, is_deleting, token_of, version_of

CREATE, REPLACE, DELETE, DELETE_COLLECTION, GET = "create", "replace", "delete", "deletecollection", "get"
NEVER = math.inf


@dataclass(slots=True)
class Operation:
    number: int
    client: int
    verb: str
    key: Key  # without a name, for a collection
    content: Content | None = None  # to write
    expected: int | None = None  # the resourceVersion in the request
    color: str = ""  # the label that a collection is filtered by
    complete: bool = True
    abandoned: bool = False  # its client disconnected before the response
    sent: float = NEVER
    ended: float = NEVER
    status: int | None = None
    response: Document = field(default_factory=dict)

    @property
    def known(self) -> bool:
        return self.status is not None

    @property
    def shown(self) -> Document | None:
        """The object in the response, if it has one."""
        success = self.status in (200, 201) and self.verb in (CREATE, REPLACE, GET)
        return self.response if success else None

    @property
    def returned_removed(self) -> bool:
        """Whether a replace returned an object that it removed: new content, old version."""
        if self.verb != REPLACE or self.shown is None:
            return False
        return is_deleting(self.shown) and not self.shown["metadata"].get("finalizers")

    @property
    def made(self) -> int | None:
        """The version in the response of this write; None when it changed nothing."""
        if self.verb not in (CREATE, REPLACE) or self.shown is None or self.returned_removed:
            return None
        # Writing the same content again returns the version, and the token, of the first write.
        return version_of(self.shown) if author_of(self.shown) == self.number else None

    def __str__(self) -> str:
        wanted = "" if self.content is None else f" {self.content.token} {','.join(self.content.finalizers)}"
        named = "" if self.expected is None else f" at {self.expected}"
        shown = self.shown
        got = f"{self.status}" if self.known else "no response" if self.complete else "partly sent"
        if shown is not None:
            mark = " deleting" if is_deleting(shown) else ""
            got += f" version {version_of(shown)} {token_of(shown)}{mark}"
        ended = "" if self.ended == NEVER else f"{self.ended:.6f}"
        where = f"{self.key} {self.color}".rstrip()
        return f"[{self.sent:.6f} .. {ended}] #{self.number} {self.verb} {where}{wanted}{named}: {got}"


@dataclass(slots=True)
class Page:
    sent: float
    ended: float
    version: int
    items: list[Document]
    token: str


@dataclass(slots=True)
class PagedList:
    """One list, page by page; its pages may come from several runs of the server."""

    plural: str
    namespace: str | None  # None: all namespaces
    color: str
    limit: int
    version: int | None = None  # its resourceVersion parameter
    match: str = ""
    pages: list[Page] = field(default_factory=list)
    expired: bool = False  # 410: older than the watch history

    @property
    def complete(self) -> bool:
        return bool(self.pages and not self.pages[-1].token)

    @property
    def finished(self) -> bool:
        return self.expired or self.complete

    @property
    def exact(self) -> bool:
        """Whether it requested exactly one version."""
        return self.match == "Exact"

    def __str__(self) -> str:
        where = self.namespace if self.namespace is not None else "all namespaces"
        named = f" {self.match} {self.version}" if self.version is not None else ""
        limited = f" by {self.limit}" if self.limit else ""
        return f"list of {self.plural} {self.color} in {where}{limited}{named}".replace("  ", " ")


@dataclass(slots=True)
class ServerRun:
    """From one start of the server to its end."""

    number: int
    ending: str  # how the test terminates it
    orderly: bool = False  # it got SIGTERM and exited by itself
    operations: list[Operation] = field(default_factory=list)
    lists: list[PagedList] = field(default_factory=list)  # whose first page came from this run
    found: dict[Key, Document] = field(default_factory=dict)  # objects before the first operation
    found_at: int = 0  # a version at least as new as all of `found`
    contents: JournalContents = field(default_factory=JournalContents)  # its journal after it ended


@dataclass(slots=True)
class History:
    runs: list[ServerRun] = field(default_factory=list)

    @property
    def operations(self) -> Iterator[Operation]:
        return (operation for run in self.runs for operation in run.operations)

    @property
    def lists(self) -> Iterator[PagedList]:
        return (paged for run in self.runs for paged in run.lists)

    @property
    def acknowledged(self) -> list[Operation]:
        """Writes that made a version, in the order of their responses."""
        made = [operation for operation in self.operations if operation.made is not None]
        return sorted(made, key=lambda operation: operation.ended)
