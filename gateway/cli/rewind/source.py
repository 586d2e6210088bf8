"""Where a command reads history: a server, or a data folder. Both return the documents of the API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rewound.actors.names import Names

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the arguments name: a kind and a name, or all objects of the kind without one."""

    kind: str
    name: str
    namespace: str  # empty: that of the context; of a folder, default
    all_namespaces: bool = False
    uid: str = ""


class Source(Protocol):
    def names(self) -> Names:
        """The dialect."""

    def is_secret(self, wanted: Wanted) -> bool:
        """Whether it is a Secret, whose values are not printed unless that is asked for."""

    def history(self, wanted: Wanted, limit: int | None) -> Iterator[Document]:
        """Versions, newest first."""

    def diff(self, wanted: Wanted, ends: str) -> Document: ...

    def contents(self, wanted: Wanted, ends: str) -> tuple[Document | None, Document | None]:
        """The object at both ends of a difference; None where it did not exist."""

    def blame(self, wanted: Wanted, at: str) -> Document: ...

    def objects(self, wanted: Wanted, at: str) -> list[Document]:
        """The object, or all of the kind, as they were."""

    def rollback(self, wanted: Wanted, to: str, fields: list[str], *, dry_run: bool) -> Document:
        """The object as it was written; of a folder, which is not written to, as it would be."""

    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document: ...
