"""The job of a load process and its result: JSON on the process's standard input and output.

Time and count both limit a job, so that it ends whatever the server does. A separate process keeps the generator's
work out of the harness and off the server's core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.options import ROOT
from benchmarks.servers.endpoint import Endpoint


class LoadFailed(Exception):
    pass


HTTP1 = "http1"
HTTP2 = "http2"


@dataclass(frozen=True, slots=True)
class Lane:
    """One load of a job: what is sent where, over which transport."""

    endpoint: Endpoint
    plan: dict[str, Any]  # {"plan": its name in benchmarks.loads.plans, ...its arguments}
    connections: int
    transport: str = HTTP1
    in_flight: int = 1  # requests in flight per connection; HTTP/1.1 allows one


@dataclass(frozen=True, slots=True)
class Job:
    """Rounds of one or several lanes, in turn: the first round of each, the second of each, and so on.

    Figures of lanes can be compared round by round, because whatever else the machine does lasts longer than a round.
    """

    lanes: tuple[Lane, ...]
    seconds: float  # length of one round
    rounds: int = 1
    warmup: float = 0.0  # seconds before the first round; the same work, not counted
    count: int = 1_000_000  # maximum number of operations in a round

    @property
    def timeout(self) -> float:
        """Seconds until the harness kills the process: each round may wait long for its last responses."""
        return len(self.lanes) * (self.warmup + self.rounds * self.seconds) + 120


@dataclass(frozen=True, slots=True)
class Round:
    operations: int
    seconds: float
    server_cpu: float
    generator_cpu: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    rounds: tuple[Round, ...]
    latency_ms: dict[str, float]  # p50, p95, p99, max over all rounds
    errors: int
    first_error: str = ""
    reconnects: int = 0
    bytes_received: int = 0
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        return sum(each.operations for each in self.rounds)


def encode_job(job: Job) -> str:
    return json.dumps(asdict(job))


def decode_job(text: str) -> Job:
    fields = json.loads(text)
    return Job(lanes=tuple(_lane(lane) for lane in fields.pop("lanes")), **fields)


def _lane(fields: dict[str, Any]) -> Lane:
    endpoint = fields.pop("endpoint")
    return Lane(endpoint=Endpoint(**{**endpoint, "pids": tuple(endpoint["pids"])}), **fields)


def encode_results(results: Iterable[LoadResult]) -> str:
    return json.dumps([asdict(result) for result in results])


def decode_results(text: str) -> list[LoadResult]:
    return [
        LoadResult(rounds=tuple(Round(**each) for each in fields.pop("rounds")), **fields)
        for fields in json.loads(text)
    ]


def run_job(job: Job) -> list[LoadResult]:
    """The result of each lane."""
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.loads.generator"],
        cwd=ROOT,
        input=encode_job(job),
        capture_output=True,
        text=True,
        timeout=job.timeout,
    )
    if process.returncode:
        raise LoadFailed(process.stderr.strip() or f"the load process ended with {process.returncode}")
    return decode_results(process.stdout)


def run_lane(
    lane: Lane, seconds: float, *, rounds: int = 1, warmup: float = 0.0, count: int = 0
) -> LoadResult:
    """The result of a job with one lane; `count` (0: unlimited) limits the operations of a round."""
    (result,) = run_job(Job((lane,), seconds, rounds, warmup, count or 1_000_000))
    return result
