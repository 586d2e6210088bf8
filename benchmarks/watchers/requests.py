"""What a watching process is told to do and what it answers: plain data, one JSON document a line.

The harness reads the server's memory, asks other requests and writes between and during orders, so a watching
process takes one order after the other instead of one job.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.servers.target import Target

PAYLOAD = 640  # with metadata and framing an event of it has about 1,280 bytes


@dataclass(frozen=True, slots=True)
class Open:
    """Open watches until so many more are there; the paths are taken in turn."""

    watchers: int
    paths: tuple[str, ...]
    missed: int = 0  # events between the version they ask for and now, which come first
    stalled: bool = False  # do not read before a `Release`
    websocket: bool = False
    window: int = 256  # connections being opened at the same time


@dataclass(frozen=True, slots=True)
class Deliver:
    """Write events and wait until every watcher that reads has all of them, step by step."""

    events: int
    step: int = 1  # events written at once; the next ones only when everybody has these
    writers: int = 1  # connections that write


@dataclass(frozen=True, slots=True)
class Release:
    """Let the stalled ones read, until they have everything."""


@dataclass(frozen=True, slots=True)
class Close:
    """End all watches."""


Order = Open | Deliver | Release | Close
_ORDERS: dict[str, Any] = {each.__name__: each for each in (Open, Deliver, Release, Close)}


@dataclass(frozen=True, slots=True)
class Done:
    """The account of an order."""

    deliveries: int = 0
    seconds: float = 0.0
    server_cpu: float = 0.0
    generator_cpu: float = 0.0
    bytes_received: int = 0
    latency_ms: dict[str, float] = field(default_factory=dict)  # from sending a write to having its event
    last_ms: dict[str, float] = field(default_factory=dict)  # the same for the last watcher of each event
    write_ms: dict[str, float] = field(default_factory=dict)  # from sending a write to its answer


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a watching process watches and where it writes, told once at its start."""

    target: Target
    writer: Target
    objects: str  # the collection whose objects are written
    payload: int = PAYLOAD


def encode_order(order: Order) -> str:
    return json.dumps({"order": type(order).__name__, **asdict(order)})


def decode_order(line: str) -> Order:
    fields = json.loads(line)
    order: Order = _ORDERS[fields.pop("order")](**fields)
    return order


def encode_assignment(assignment: Assignment) -> str:
    return json.dumps(asdict(assignment))


def decode_assignment(line: str) -> Assignment:
    fields = json.loads(line)
    return Assignment(target=_target(fields.pop("target")), writer=_target(fields.pop("writer")), **fields)


def _target(fields: dict[str, Any]) -> Target:
    return Target(**{**fields, "pids": tuple(fields["pids"])})
