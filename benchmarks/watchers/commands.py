"""The commands of a watcher process and their results: one JSON document per line.

The harness reads the server's memory, sends other requests and writes between and during commands, so a watcher
process executes one command after the other instead of one job.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.loads.job import HTTP1
from benchmarks.servers.endpoint import Endpoint

WEBSOCKET = "websocket"  # a transport of watches besides HTTP1 and HTTP2
PAYLOAD = 640  # bytes; an event of such an object has about 1,280 bytes with metadata and framing


@dataclass(frozen=True, slots=True)
class Open:
    """Open this many more watches, using the paths in turn."""

    watchers: int
    paths: tuple[str, ...]
    missed: int = 0  # events after the version that they ask for, which they get first
    stalled: bool = False  # these watchers do not read before a `Release`
    by_window: bool = False  # stalled ones read, but the windows of their streams are used up (HTTP/2)
    transport: str = HTTP1
    per_connection: int = 1  # watches of one connection (HTTP/2)
    window: int = 256  # maximum number of connections that are being opened at a time


@dataclass(frozen=True, slots=True)
class Deliver:
    """Write events step by step, waiting after each step until every watcher that reads has all of them."""

    events: int
    step: int = 1  # events written at once
    writers: int = 1  # connections that write


@dataclass(frozen=True, slots=True)
class Release:
    """Let stalled watchers read until they have all events."""


Command = Open | Deliver | Release
_COMMANDS: dict[str, Any] = {each.__name__: each for each in (Open, Deliver, Release)}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command measured."""

    deliveries: int = 0
    seconds: float = 0.0
    server_cpu: float = 0.0
    generator_cpu: float = 0.0
    bytes_received: int = 0
    latency_ms: dict[str, float] = field(default_factory=dict)  # from sending a write to receiving its event
    last_ms: dict[str, float] = field(default_factory=dict)  # the same for the last watcher of each event
    write_ms: dict[str, float] = field(default_factory=dict)  # from sending a write to its response


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a watcher process watches and writes: the first line of its input."""

    endpoint: Endpoint
    writer: Endpoint
    objects: str  # the collection whose objects are written
    payload: int = PAYLOAD


def encode_command(command: Command) -> str:
    return json.dumps({"command": type(command).__name__, **asdict(command)})


def decode_command(line: str) -> Command:
    fields = json.loads(line)
    command: Command = _COMMANDS[fields.pop("command")](**fields)
    return command


def encode_assignment(assignment: Assignment) -> str:
    return json.dumps(asdict(assignment))


def decode_assignment(line: str) -> Assignment:
    fields = json.loads(line)
    return Assignment(
        endpoint=_endpoint(fields.pop("endpoint")), writer=_endpoint(fields.pop("writer")), **fields
    )


def _endpoint(fields: dict[str, Any]) -> Endpoint:
    return Endpoint(**{**fields, "pids": tuple(fields["pids"])})
