"""Events to write into a journal under test, and a simple model of what it must return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rewound.journal import Event, Row

NOON = 1_700_000_000_000_000


@dataclass
class Model:
    """The contents of a journal as a list of all events."""

    events: list[Event] = field(default_factory=list)
    _present: dict[tuple[int, str, str], int] = field(
        default_factory=dict, init=False
    )  # offsets of objects' last events

    def __post_init__(self) -> None:
        for event in self.events:
            self._remember(event)

    def put(self, name: str, *, namespace: str = "default", type_id: int = 1, filler: str = "") -> Event:
        """The next event that creates or changes an object."""
        return self._next(name, namespace, type_id, removed=False, filler=filler)

    def remove(self, name: str, *, namespace: str = "default", type_id: int = 1) -> Event:
        return self._next(name, namespace, type_id, removed=True, filler="")

    def _next(self, name: str, namespace: str, type_id: int, *, removed: bool, filler: str) -> Event:
        before = self._present.get((type_id, namespace, name), 0)
        offset = self.head + 1
        event = Event(
            offset=offset,
            type_id=type_id,
            verb="delete" if removed else "update" if before else "create",
            namespace=namespace,
            name=name,
            previous=before,
            removed=removed,
            time=NOON + 1000 * offset,
            user="alice",
            manager="tests",
            facts=b"even" if offset % 2 == 0 else b"odd",
            body=b'{"metadata":{"name":"%b","resourceVersion":"%d"}%b}'
            % (name.encode(errors="replace"), offset, filler.encode()),
        )
        self.events.append(event)
        self._remember(event)
        return event

    def _remember(self, event: Event) -> None:
        key = (event.type_id, event.namespace, event.name)
        if event.removed:
            self._present.pop(key, None)
        else:
            self._present[key] = event.offset

    @property
    def head(self) -> int:
        return self.events[-1].offset if self.events else 0

    def state(self, at: int | None = None) -> dict[tuple[int, str, str], Row]:
        rows: dict[tuple[int, str, str], Row] = {}
        for event in self.events:
            if at is not None and event.offset > at:
                break
            key = (event.type_id, event.namespace, event.name)
            if event.removed:
                rows.pop(key, None)
            else:
                rows[key] = Row(event.offset, event.facts, event.body)
        return rows

    def rows(
        self, type_id: int, namespace: str | None = None, at: int | None = None
    ) -> Iterator[tuple[str, str, Row]]:
        """In the order of lists."""
        rows = self.state(at)
        for key in sorted(rows, key=lambda key: (key[1].encode(), key[2].encode())):
            if key[0] == type_id and namespace in (None, key[1]):
                yield key[1], key[2], rows[key]


def ram() -> str | None:
    """A folder in memory, if there is one: tests with many small commits need no disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
