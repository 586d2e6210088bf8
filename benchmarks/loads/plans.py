"""What the connections of a load send: one plan per kind of work; the job of a load process names its plan.

A plan returns the next request of an exchange, whatever the transport, and checks the response; `slot` is the number
of the exchange in its load (with one request in flight, that of the connection). An operation may take several
requests (an update that lost a race reads again and retries): `AGAIN` means that the operation continues, `DONE` that
it counts. Plans prepare requests outside the loop where they can, because their cost is the generator's cost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Protocol

from benchmarks.loads.request import Request

PAYLOAD = "x" * 900  # an object has about 1 kB with its metadata
SHARDS = 16  # values of the label `shard`: a selector on one matches a sixteenth


class Outcome(Enum):
    DONE = auto()
    AGAIN = auto()
    FAILED = auto()


class Plan(Protocol):
    keep_body: bool

    def next(self, slot: int) -> Request | None:
        """The next request of this exchange; None when nothing is left to do."""

    def check(self, slot: int, status: int, body: bytes) -> Outcome: ...

    def notes(self) -> dict[str, int]:
        """What the plan counts besides operations, by name."""


def config_map(name: str, number: int, extra: str = "") -> bytes:
    labels = f'{{"app":"bench","shard":"{number % SHARDS}"}}'
    metadata = f'{{"name":"{name}","labels":{labels}{extra}}}'
    return f'{{"metadata":{metadata},"data":{{"payload":"{PAYLOAD}"}}}}'.encode()


class Repeat:
    """Repeats gets of a list of paths."""

    keep_body = False

    def __init__(self, paths: list[str]) -> None:
        self._requests = [Request("GET", path) for path in paths]
        self._count = 0

    def next(self, slot: int) -> Request | None:
        self._count += 1
        return self._requests[self._count % len(self._requests)]

    def check(self, slot: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status == 200 else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


class Create:
    """Creates objects of 1 kB with new names; `total` (0: unlimited) is the number of objects over all rounds.

    They are ConfigMaps, or copies of `body`, in which `NAME` is replaced.
    """

    keep_body = False

    def __init__(self, path: str, prefix: str, total: int = 0, body: str = "") -> None:
        self._path, self._prefix, self._total = path, prefix, total
        self._body = body.encode()
        self._numbers = itertools.count()

    def next(self, slot: int) -> Request | None:
        number = next(self._numbers)
        if self._total and number >= self._total:
            return None
        name = f"{self._prefix}{number:06}"
        body = self._body.replace(b"NAME", name.encode()) if self._body else config_map(name, number)
        return Request("POST", self._path, body)

    def check(self, slot: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status == 201 else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


class Delete:
    """Deletes each of the `total` objects that a `Create` with the same prefix created."""

    keep_body = False

    def __init__(self, path: str, prefix: str, total: int) -> None:
        self._path, self._prefix, self._total = path, prefix, total
        self._numbers = itertools.count()

    def next(self, slot: int) -> Request | None:
        number = next(self._numbers)
        if number >= self._total:
            return None
        return Request("DELETE", f"{self._path}/{self._prefix}{number:06}")

    def check(self, slot: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status in (200, 202) else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


_VERSION = re.compile(rb'"resourceVersion":\s*"(\d+)"')


class Update:
    """All connections replace one object: read, write with its version, read again after a conflict.

    An operation is an accepted write together with the reads and conflicts that led to it.
    """

    keep_body = True

    def __init__(self, path: str, name: str) -> None:
        self._path, self._name = f"{path}/{name}", name
        self._get = Request("GET", self._path)
        self._version: dict[int, bytes] = {}  # by slot: the version that its next write expects
        self._writing: set[int] = set()
        self._written = itertools.count()
        self._conflicts = self._reads = 0

    def next(self, slot: int) -> Request | None:
        version = self._version.pop(slot, None)
        if version is None:
            self._reads += 1
            return self._get
        self._writing.add(slot)
        extra = f',"resourceVersion":"{version.decode()}","annotations":{{"n":"{next(self._written)}"}}'
        return Request("PUT", self._path, config_map(self._name, 0, extra))

    def check(self, slot: int, status: int, body: bytes) -> Outcome:
        writing = slot in self._writing
        self._writing.discard(slot)
        if writing and status == 409:
            self._conflicts += 1
            return Outcome.AGAIN
        if status != 200:
            return Outcome.FAILED
        if writing:
            return Outcome.DONE
        found = _VERSION.search(body)
        if found is None:
            return Outcome.FAILED
        self._version[slot] = found[1]
        return Outcome.AGAIN

    def notes(self) -> dict[str, int]:
        return {"conflicts": self._conflicts, "reads": self._reads}


class Patch:
    """Each exchange patches one of the paths; every request replaces `NUMBER` in the body with a new number."""

    keep_body = False

    def __init__(self, paths: list[str], media: str, body: str) -> None:
        self._paths, self._media = paths, media
        self._before, self._after = (part.encode() for part in body.split("NUMBER"))
        self._numbers = itertools.count(1)

    def next(self, slot: int) -> Request | None:
        body = b"%s%d%s" % (self._before, next(self._numbers), self._after)
        path = self._paths[slot % len(self._paths)]
        return Request("PATCH", path, body, self._media)

    def check(self, slot: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status in (200, 201) else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


PLANS: dict[str, Callable[..., Plan]] = {
    "repeat": Repeat,
    "create": Create,
    "delete": Delete,
    "update": Update,
    "patch": Patch,
}


def make_plan(plan: dict[str, Any]) -> Plan:
    arguments = dict(plan)
    return PLANS[arguments.pop("plan")](**arguments)
