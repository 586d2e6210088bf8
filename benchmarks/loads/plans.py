"""What the connections of a load send: one plan per kind of work; the job of a load process names its plan.

A plan returns the next request of a connection and checks the response. An operation may take several requests (an
update that lost a race reads again and retries): `AGAIN` means that the operation continues, `DONE` that it counts.
Plans prepare requests outside the loop where they can, because their cost is the generator's cost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Protocol

from benchmarks.loads.http1 import request

PAYLOAD = "x" * 900  # an object has about 1 kB with its metadata
SHARDS = 16  # values of the label `shard`: a selector on one matches a sixteenth


class Outcome(Enum):
    DONE = auto()
    AGAIN = auto()
    FAILED = auto()


class Plan(Protocol):
    keep_body: bool

    def next(self, connection: int) -> bytes | None:
        """The next request of this connection; None when nothing is left to do."""

    def check(self, connection: int, status: int, body: bytes) -> Outcome: ...

    def notes(self) -> dict[str, int]:
        """What the plan counts besides operations, by name."""


def config_map(name: str, number: int, extra: str = "") -> bytes:
    labels = f'{{"app":"bench","shard":"{number % SHARDS}"}}'
    metadata = f'{{"name":"{name}","labels":{labels}{extra}}}'
    return f'{{"metadata":{metadata},"data":{{"payload":"{PAYLOAD}"}}}}'.encode()


class Repeat:
    """Repeats gets of a list of paths."""

    keep_body = False

    def __init__(self, token: str, paths: list[str]) -> None:
        self._requests = [request("GET", path, token=token) for path in paths]
        self._count = 0

    def next(self, connection: int) -> bytes | None:
        self._count += 1
        return self._requests[self._count % len(self._requests)]

    def check(self, connection: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status == 200 else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


class Create:
    """Creates objects of 1 kB with new names; `total` (0: unlimited) is the number of objects over all rounds."""

    keep_body = False

    def __init__(self, token: str, path: str, prefix: str, total: int = 0) -> None:
        self._head = request("POST", path, token=token, body=b"").split(b"Content-Length")[0]
        self._prefix, self._total = prefix, total
        self._numbers = itertools.count()

    def next(self, connection: int) -> bytes | None:
        number = next(self._numbers)
        if self._total and number >= self._total:
            return None
        body = config_map(f"{self._prefix}{number:06}", number)
        return b"%sContent-Length: %d\r\n\r\n%s" % (self._head, len(body), body)

    def check(self, connection: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status == 201 else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


class Delete:
    """Deletes each of the `total` objects that a `Create` with the same prefix created."""

    keep_body = False

    def __init__(self, token: str, path: str, prefix: str, total: int) -> None:
        self._token, self._path, self._prefix, self._total = token, path, prefix, total
        self._numbers = itertools.count()

    def next(self, connection: int) -> bytes | None:
        number = next(self._numbers)
        if number >= self._total:
            return None
        return request("DELETE", f"{self._path}/{self._prefix}{number:06}", token=self._token)

    def check(self, connection: int, status: int, body: bytes) -> Outcome:
        return Outcome.DONE if status in (200, 202) else Outcome.FAILED

    def notes(self) -> dict[str, int]:
        return {}


_VERSION = re.compile(rb'"resourceVersion":\s*"(\d+)"')


class Update:
    """All connections replace one object: read, write with its version, read again after a conflict.

    An operation is an accepted write together with the reads and conflicts that led to it.
    """

    keep_body = True

    def __init__(self, token: str, path: str, name: str) -> None:
        self._token, self._path, self._name = token, f"{path}/{name}", name
        self._get = request("GET", self._path, token=token)
        self._version: dict[int, bytes] = {}  # by connection: the version that its next write expects
        self._writing: set[int] = set()
        self._written = itertools.count()
        self._conflicts = self._reads = 0

    def next(self, connection: int) -> bytes | None:
        version = self._version.pop(connection, None)
        if version is None:
            self._reads += 1
            return self._get
        self._writing.add(connection)
        extra = f',"resourceVersion":"{version.decode()}","annotations":{{"n":"{next(self._written)}"}}'
        return request("PUT", self._path, token=self._token, body=config_map(self._name, 0, extra))

    def check(self, connection: int, status: int, body: bytes) -> Outcome:
        writing = connection in self._writing
        self._writing.discard(connection)
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
        self._version[connection] = found[1]
        return Outcome.AGAIN

    def notes(self) -> dict[str, int]:
        return {"conflicts": self._conflicts, "reads": self._reads}


class Patch:
    """Each connection patches one of the paths; every request replaces `NUMBER` in the body with a new number."""

    keep_body = False

    def __init__(self, token: str, paths: list[str], media: str, body: str) -> None:
        self._token, self._paths, self._media = token, paths, media
        self._before, self._after = (part.encode() for part in body.split("NUMBER"))
        self._numbers = itertools.count(1)

    def next(self, connection: int) -> bytes | None:
        body = b"%s%d%s" % (self._before, next(self._numbers), self._after)
        path = self._paths[connection % len(self._paths)]
        return request("PATCH", path, token=self._token, body=body, media=self._media)

    def check(self, connection: int, status: int, body: bytes) -> Outcome:
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


def make_plan(token: str, plan: dict[str, Any]) -> Plan:
    arguments = dict(plan)
    return PLANS[arguments.pop("plan")](token, **arguments)
