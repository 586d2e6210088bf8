"""Objects whose newest version could not be recorded, and why: one such object must not blind the recorder for others.

A file beside the journal has them, because a recorder that continues does not get their events again. The mark of an
object ends with a version that can be recorded, with its deletion, or with a complete list without it. Each kind with
such objects has a gap as long as there is one; names are only in the file and in the status, because who sees a gap
may not see all objects of its kind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from rewound.recording.record.gaps import LEFT_OUT, Gaps

logger = logging.getLogger(__name__)

FILE: Final = "left-out.json"
MOST: Final = 1000  # objects whose names are known; others are counted until their kind is listed again
SHOWN: Final = 5  # names of a kind in a document
_REASON: Final = 200  # characters
Key = tuple[str, str]  # namespace and name; both are empty for what has no name


class _Others(NamedTuple):
    number: int
    why: str


class LeftOut:
    def __init__(self, folder: Path, gaps: Gaps, now: Callable[[], int]) -> None:
        """`now()` in microseconds since 1970."""
        self._path = folder / FILE
        self._gaps = gaps
        self._now = now
        self._objects: dict[str, dict[Key, str]] = {}  # by type
        self._others: dict[str, _Others] = {}
        self._changed = False
        self.times = 0  # versions, events and items of lists

    def load(self) -> None:
        """Load those of an earlier run; without the file, or if it cannot be read, there are none."""
        try:
            document = orjson.loads(self._path.read_bytes())
            for kind, objects in document["objects"].items():
                found = {(str(one["namespace"]), str(one["name"])): str(one["why"]) for one in objects[:MOST]}
                if found:
                    self._objects[str(kind)] = found
            for kind, other in document["others"].items():
                self._others[str(kind)] = _Others(int(other["count"]), str(other["why"]))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning(
                "%s cannot be read; objects that were left out before are not marked: %r", FILE, error
            )
        for gap in self._gaps.lasting():
            for kind in [one for one in gap.kinds if gap.why == LEFT_OUT and not self.count(one)]:
                self._gaps.end(LEFT_OUT, self._now(), kind)  # the kill came before the file
        for kind in self._objects.keys() | self._others.keys():
            self._gaps.begin_again(LEFT_OUT, self._now(), kind, self.why(kind))

    def save(self) -> None:
        """Write the file, if something has changed. Raises OSError."""
        if not self._changed:
            return
        document = {
            "objects": {
                kind: [{"namespace": key[0], "name": key[1], "why": why} for key, why in objects.items()]
                for kind, objects in self._objects.items()
            },
            "others": {
                kind: {"count": other.number, "why": other.why} for kind, other in self._others.items()
            },
        }
        building = self._path.with_suffix(".json.new")
        with open(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(orjson.dumps(document))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(building, self._path)
        self._changed = False

    def add(self, kind: str, key: Key, why: str) -> None:
        """Mark an object of a type."""
        why, self.times = why[:_REASON], self.times + 1
        objects = self._objects.get(kind, {})
        if objects.get(key) == why:
            return
        if key not in objects:
            name = "/".join(filter(None, key)) or "an object without a name"
            logger.warning("%s of %s is left out: %s", name, kind, why)
        if not self.count(kind):
            self._gaps.begin_again(LEFT_OUT, self._now(), kind, why)
        if key in objects or sum(map(len, self._objects.values())) < MOST:
            self._objects.setdefault(kind, objects)[key] = why
        else:
            self._others[kind] = _Others(self._others.get(kind, _Others(0, "")).number + 1, why)
        self._changed = True

    def remove(self, kind: str, key: Key) -> None:
        """An object can be recorded, or does not exist any more."""
        objects = self._objects.get(kind)
        if objects is not None and objects.pop(key, None) is not None:
            self._shrunk(kind)

    def begin_list(self, kind: str) -> None:
        """What only was counted is counted again by the list that begins."""
        if self._others.pop(kind, None) is not None:
            self._changed = True

    def end_list(self, kind: str, left_out: set[Key]) -> None:
        """A list is complete: only these of its objects were left out."""
        objects = self._objects.get(kind)
        if objects is None and not self._gaps.lasts(LEFT_OUT, kind):
            return
        objects = objects or {}
        for key in [one for one in objects if one not in left_out]:
            del objects[key]
        self._shrunk(kind)

    def _shrunk(self, kind: str) -> None:
        self._changed = True
        if not self._objects.get(kind):
            self._objects.pop(kind, None)
        if not self.count(kind):
            self._gaps.end(LEFT_OUT, self._now(), kind)

    def count(self, kind: str) -> int:
        other = self._others.get(kind)
        return len(self._objects.get(kind, ())) + (other.number if other is not None else 0)

    @property
    def total(self) -> int:
        return sum(map(self.count, self._objects.keys() | self._others.keys()))

    def why(self, kind: str) -> str:
        """Why the first of them was left out."""
        other = self._others.get(kind)
        return next(iter(self._objects.get(kind, {}).values()), "" if other is None else other.why)

    def documents(self) -> list[dict[str, Any]]:
        """How many of each type, the names of a few, and the reason of the first."""
        return [
            {
                "kind": kind,
                "count": self.count(kind),
                "objects": [
                    {"namespace": namespace, "name": name, "why": why}
                    for (namespace, name), why in list(self._objects.get(kind, {}).items())[:SHOWN]
                ],
                "why": self.why(kind),
            }
            for kind in sorted(self._objects.keys() | self._others.keys())
        ]
