"""The workload of replays delivers every recorded event to its watcher."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.options import QUICK
from benchmarks.workloads.in_process.replay import replay_speed


def test_replay_delivers_every_event() -> None:
    measured = replay_speed(replace(QUICK, missed=1500, rounds=1))
    assert measured.notes == {"events": 1500}
    assert measured.figures["rate"] > 0
