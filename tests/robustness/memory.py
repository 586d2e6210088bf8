"""What clients know from answers, in this life of the server and in those before. Shared by their threads."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tests.robustness.history import Operation, Walk
from tests.robustness.objects import OURS, Document, Key, key_of, version_of

# Walks left over for the next life; more of them would all show the same.
UNFINISHED = 8


@dataclass(slots=True)
class Memory:
    known: dict[Key, Document] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    unfinished: list[Walk] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def learn(self, operation: Operation) -> None:
        if operation.shown is not None and not operation.shows_last_of:
            self.known[operation.key] = operation.shown
            self.versions.append(version_of(operation.shown))
        elif operation.status == 404:
            self.known.pop(operation.key, None)

    def learn_page(self, walk: Walk) -> None:
        if walk.expired:
            return
        self.versions.append(walk.pages[-1].version)
        if walk.version is None:
            for item in walk.pages[-1].items:
                if (key := key_of(walk.plural, item)) in OURS:
                    self.known.setdefault(key, item)

    def leave_unfinished(self, walk: Walk) -> None:
        if walk.pages and len(self.unfinished) < UNFINISHED:
            self.unfinished.append(walk)
