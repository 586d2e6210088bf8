"""What clients know from responses, in this run of the server and in earlier ones. All client threads share it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tests.robustness.history import Operation, PagedList
from tests.robustness.objects import TEST_KEYS, Document, Key, key_of, version_of

# Unfinished lists for the next run; more of them would not find more.
UNFINISHED = 8


@dataclass(slots=True)
class ClientCache:
    known: dict[Key, Document] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    unfinished: list[PagedList] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def learn(self, operation: Operation) -> None:
        if operation.shown is not None and not operation.returned_removed:
            self.known[operation.key] = operation.shown
            self.versions.append(version_of(operation.shown))
        elif operation.status == 404:
            self.known.pop(operation.key, None)

    def learn_page(self, paged: PagedList) -> None:
        if paged.expired:
            return
        self.versions.append(paged.pages[-1].version)
        if paged.version is None:
            for item in paged.pages[-1].items:
                if (key := key_of(paged.plural, item)) in TEST_KEYS:
                    self.known.setdefault(key, item)

    def keep_unfinished(self, paged: PagedList) -> None:
        if paged.pages and len(self.unfinished) < UNFINISHED:
            self.unfinished.append(paged)
