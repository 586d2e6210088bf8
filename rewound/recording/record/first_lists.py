"""Holds the first lists of all kinds on disk until they are complete, and returns them in the order of their versions.

A list arrives in the order of names, the journal needs the order of versions, and all kinds are sorted as one: so
nothing can be written before the last page is there. Memory has a few numbers for each change; contents are in a file
of the folder without a name, which ends with the process: after a kill the lists begin again.

Rejected: a table of LMDB sorted by version, which writes every page of the file several times.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgpack

from rewound.recording.record.changes import Change, in_order
from rewound.recording.record.kinds import RecordedKind

BUFFER: Final = 1 << 18  # bytes


class _Place(NamedTuple):
    number: int | None
    after: int
    start: int  # in the file
    size: int


class FirstLists:
    def __init__(self, folder: Path) -> None:
        """Raises OSError if the folder cannot be written."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=BUFFER)  # noqa: SIM115 (`close`)
        self._places: list[_Place] = []
        self._kinds: dict[str, RecordedKind] = {}
        self.size = 0  # bytes in the file

    def __len__(self) -> int:
        return len(self._places)

    def add(self, change: Change) -> None:
        """Raises OSError, such as for a full disk."""
        self._kinds[change.kind.type_name] = change.kind
        encoded = msgpack.packb(
            (
                change.kind.type_name,
                change.namespace,
                change.name,
                change.uid,
                change.version,
                change.removed,
                change.body,
                change.facts,
                change.arrived,
                change.reason,
                change.listed,
            )
        )
        self._file.write(encoded)
        self._places.append(_Place(change.number, change.after, self.size, len(encoded)))
        self.size += len(encoded)

    @property
    def newest(self) -> int:
        """The highest version."""
        return max((one.number for one in self._places if one.number is not None), default=0)

    def in_order(self, head: Callable[[], int]) -> Iterator[Change]:
        """Everything, each change read when it is needed; `head()` is the newest version that is written."""
        self._file.flush()
        return map(self._load, in_order(self._places, head))

    def _load(self, place: _Place) -> Change:
        # Not by seek and read, which fill a buffer each time.
        encoded = os.pread(self._file.fileno(), place.size, place.start)
        type_name, namespace, name, uid, version, removed, body, facts, arrived, reason, listed = (
            msgpack.unpackb(encoded)
        )
        return Change(
            self._kinds[type_name],
            namespace,
            name,
            uid,
            version,
            removed,
            body,
            facts,
            arrived,
            reason,
            listed=listed,
            after=place.after,
        )

    def close(self) -> None:
        """Give the memory and the disk back."""
        self._file.close()
        self._places = []
