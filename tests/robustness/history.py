"""What happened: every request with its answer, every list with its pages, life after life of the server.

Clients record, each into lists of its life; validators only read. An operation without a status was sent and
never answered: it may have happened or not, at any moment until the server was gone. One that is not
`complete` was cut off before its end, so it must never have happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.robustness.ledger import Ledger
from tests.robustness.objects import Content, Document, Key, author_of, is_deleting, token_of, version_of

CREATE, REPLACE, DELETE, DELETE_COLLECTION, GET = "create", "replace", "delete", "deletecollection", "get"
NOT_YET = math.inf


@dataclass(slots=True)
class Operation:
    number: int
    client: int
    verb: str
    key: Key  # without a name for a collection
    content: Content | None = None  # what is to be written
    expected: int | None = None  # the version that the request names
    color: str = ""  # what a collection is narrowed to
    complete: bool = True
    abandoned: bool = False  # its client was gone before an answer could come
    sent: float = NOT_YET
    ended: float = NOT_YET
    status: int | None = None
    answer: Document = field(default_factory=dict)

    @property
    def known(self) -> bool:
        return self.status is not None

    @property
    def shown(self) -> Document | None:
        """The object in the answer, where there is one."""
        success = self.status in (200, 201) and self.verb in (CREATE, REPLACE, GET)
        return self.answer if success else None

    @property
    def shows_last_of(self) -> bool:
        """Whether a replace was answered with an object that it removed: new content, old version."""
        if self.verb != REPLACE or self.shown is None:
            return False
        return is_deleting(self.shown) and not self.shown["metadata"].get("finalizers")

    @property
    def made(self) -> int | None:
        """The version that this write was acknowledged with; None when it changed nothing."""
        if self.verb not in (CREATE, REPLACE) or self.shown is None or self.shows_last_of:
            return None
        # Writing what is already there gives the version, and the token, of the write that was first.
        return version_of(self.shown) if author_of(self.shown) == self.number else None

    def __str__(self) -> str:
        wanted = "" if self.content is None else f" {self.content.token} {','.join(self.content.finalizers)}"
        named = "" if self.expected is None else f" at {self.expected}"
        shown = self.shown
        got = f"{self.status}" if self.known else "no answer" if self.complete else "never sent whole"
        if shown is not None:
            mark = " deleting" if is_deleting(shown) else ""
            got += f" version {version_of(shown)} {token_of(shown)}{mark}"
        ended = "" if self.ended == NOT_YET else f"{self.ended:.6f}"
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
class Walk:
    """One list, page by page; its pages may be asked of several lives of the server."""

    plural: str
    namespace: str | None  # None: all of them
    color: str
    limit: int
    version: int | None = None  # the one it named
    match: str = ""
    pages: list[Page] = field(default_factory=list)
    expired: bool = False  # 410: older than what the server may be asked about

    @property
    def complete(self) -> bool:
        return bool(self.pages and not self.pages[-1].token)

    @property
    def finished(self) -> bool:
        return self.expired or self.complete

    @property
    def exact(self) -> bool:
        """Whether it asked for one version and no other."""
        return self.match == "Exact"

    def __str__(self) -> str:
        where = self.namespace if self.namespace is not None else "all namespaces"
        named = f" {self.match} {self.version}" if self.version is not None else ""
        limited = f" by {self.limit}" if self.limit else ""
        return f"list of {self.plural} {self.color} in {where}{limited}{named}".replace("  ", " ")


@dataclass(slots=True)
class Life:
    """From one start of the server to its end."""

    number: int
    ending: str  # how it was meant to end
    orderly: bool = False  # it was told to stop, and ended by itself
    operations: list[Operation] = field(default_factory=list)
    walks: list[Walk] = field(default_factory=list)  # those begun in this life
    found: dict[Key, Document] = field(default_factory=dict)  # what was there before the first operation
    found_at: int = 0  # a version that all of it is not newer than
    ledger: Ledger = field(default_factory=Ledger)  # what its journal said afterwards


@dataclass(slots=True)
class History:
    lives: list[Life] = field(default_factory=list)

    @property
    def operations(self) -> Iterator[Operation]:
        return (operation for life in self.lives for operation in life.operations)

    @property
    def walks(self) -> Iterator[Walk]:
        return (walk for life in self.lives for walk in life.walks)

    @property
    def acknowledged(self) -> list[Operation]:
        """Writes that made a version, in the order of their answers."""
        made = [operation for operation in self.operations if operation.made is not None]
        return sorted(made, key=lambda operation: operation.ended)
