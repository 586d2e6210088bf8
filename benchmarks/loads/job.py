"""The order a load process gets and the account it gives: plain data, JSON on its standard input and output.

A job is bounded twice, by time and by count, so that nothing the server does makes it run on. A separate
process keeps the generator's work out of the harness and off the core of the server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.options import ROOT
from benchmarks.servers.target import Target


class LoadFailed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Job:
    target: Target
    plan: dict[str, Any]  # {"plan": its name in benchmarks.loads.plans, ...its arguments}
    connections: int
    seconds: float  # of one round
    rounds: int = 1
    warmup: float = 0.0  # seconds before the first round; the same work, not counted
    count: int = 1_000_000  # most operations of one round

    @property
    def patience(self) -> float:
        """When the whole process is given up: each round may wait long for its last answers."""
        return self.warmup + self.rounds * self.seconds + 120


@dataclass(frozen=True, slots=True)
class Round:
    operations: int
    seconds: float
    server_cpu: float
    generator_cpu: float


@dataclass(frozen=True, slots=True)
class Account:
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
    target = fields.pop("target")
    return Job(target=Target(**{**target, "pids": tuple(target["pids"])}), **fields)


def decode_account(text: str) -> Account:
    fields = json.loads(text)
    return Account(rounds=tuple(Round(**each) for each in fields.pop("rounds")), **fields)


def run_job(job: Job) -> Account:
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.loads.generator"],
        cwd=ROOT,
        input=encode_job(job),
        capture_output=True,
        text=True,
        timeout=job.patience,
    )
    if process.returncode:
        raise LoadFailed(process.stderr.strip() or f"the load process ended with {process.returncode}")
    return decode_account(process.stdout)
