"""Which older versions a read or a watch may be served from, by the rules of resourceVersion.

| request | what it allows | stale |
|---|---|---|
| get, list or watch without a version | the most recent state | never |
| get, list or watch with 0 | any version, also one older than what the client has seen | yes |
| get or list "not older than" a version | that version and newer ones | yes, down to that version |
| list at an exact version, continued list, watch from a version | that version | never |

No read is older than the watch history: a client that lists an old version can watch from there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from rewound.gateway.pipeline.parameters import Parameters
from rewound.journal import history
from rewound.journal.log import Journal
from rewound.testing.faults.rules import StaleRead


def may_be_stale(verb: str, parameters: Parameters) -> bool:
    """Whether the rules of resourceVersion allow a state that is not the newest."""
    version = parameters.first("resourceVersion") or ""
    if not version.isdecimal() or parameters.at is not None:
        return False
    if verb == "get":
        return True
    if verb == "watch":
        return int(version) == 0
    match = parameters.first("resourceVersionMatch") or ""
    if verb != "list" or match == "Exact" or parameters.first("continue"):
        return False
    limited = parameters.first("limit") not in (None, "", "0")
    return int(version) == 0 or match == "NotOlderThan" or not limited


def names_version(verb: str, parameters: Parameters) -> bool:
    """Whether a list or watch depends on a version that the server may have forgotten."""
    version = parameters.first("resourceVersion") or ""
    if parameters.at is not None:
        return False
    if verb == "list" and parameters.first("continue"):
        return True
    if verb == "watch" and parameters.first("resourceVersionMatch"):
        return False  # it starts with the objects of any newer version (sendInitialEvents)
    return version.isdecimal() and int(version) > 0


class OlderVersions:
    def __init__(self, journal: Journal, floor: Callable[[], int], now: Callable[[], int]) -> None:
        """`floor()`: where the watch history begins; `now()` in microseconds."""
        self._journal = journal
        self._floor = floor
        self._now = now

    def stale_version(self, fault: StaleRead, not_older_than: int) -> int | None:
        """The version to read; None if only the newest is allowed."""
        with self._journal.read() as view:
            head = view.head
            if fault.versions:
                version = head - fault.versions
            else:
                version = view.offset_at(self._now() - round(fault.seconds * 1_000_000))
        version = max(version, not_older_than, self._floor())
        return version if version < head else None

    def bounded(self, version: int) -> int | None:
        """That version, or the oldest of the watch history; None if it is the newest."""
        version = max(version, self._floor())
        return version if version < self._journal.head else None

    def start_of_repeat(self, type_name: str, version: int, events: int) -> int:
        """The version from which a watch gets that many events of the type up to `version`, and all after it."""
        with self._journal.read() as view:
            index = history.of_type(view, self._journal.type_id(type_name))
            offsets = list(islice(history.descending(view, index, version), events))
        start = offsets[-1] - 1 if offsets else version
        return min(version, max(start, self._floor()))
