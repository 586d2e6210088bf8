"""The watching process and the bare loop of sends: every watcher gets every event once, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.baselines.send_loop import bare_loop
from benchmarks.baselines.send_loop_server import chunk
from benchmarks.loads.job import LoadFailed
from benchmarks.options import Options, parse
from benchmarks.servers.target import Target
from benchmarks.watchers.controller import Audience
from benchmarks.watchers.requests import (
    Assignment,
    Deliver,
    Open,
    decode_assignment,
    decode_order,
    encode_assignment,
    encode_order,
)
from benchmarks.watchers.watcher import MARK


def _options(folder: Path) -> Options:
    return parse(["--quick", "--scratch", str(folder)])


@pytest.mark.parametrize("tls", [False, True])
def test_all_get_everything(tmp_path: Path, tls: bool) -> None:
    with (
        bare_loop(_options(tmp_path), 1300, tls=tls) as target,
        Audience(Assignment(target, target, "/")) as audience,
    ):
        audience.open(Open(7, ("/",)))
        done = audience.deliver(Deliver(4))
        assert (done.deliveries, done.bytes_received) == (28, 28 * 1300)
        assert done.server_cpu > 0
        assert set(done.latency_ms) == set(done.last_ms) == {"p50", "p95", "p99", "max"}


def test_stalled_watchers_read_when_released(tmp_path: Path) -> None:
    with (
        bare_loop(_options(tmp_path), 1300, tls=False) as target,
        Audience(Assignment(target, target, "/")) as audience,
    ):
        audience.open(Open(2, ("/",)))
        audience.open(Open(3, ("/",), stalled=True))
        assert audience.deliver(Deliver(1)).deliveries == 2
        assert audience.release().deliveries == 3
        assert audience.deliver(Deliver(1)).deliveries == 5


def test_nobody_there_is_told(tmp_path: Path) -> None:
    nowhere = Target("127.0.0.1", 1, False, "", ())
    with Audience(Assignment(nowhere, nowhere, "/")) as audience, pytest.raises(LoadFailed, match="connect"):
        audience.open(Open(1, ("/",)))


@pytest.mark.parametrize("size", [200, 1300, 4100, 70_000])
def test_an_event_of_the_floor_has_one_mark_and_the_size_asked_for(size: int) -> None:
    made = chunk(size)
    assert (len(made), made.count(MARK)) == (size, 1)


def test_orders_travel_as_lines() -> None:
    for order in (Open(3, ("/a", "/b"), missed=2), Deliver(10, step=5, writers=2)):
        line = encode_order(order)
        assert "\n" not in line
        back = decode_order(line)
        assert type(back) is type(order) and encode_order(back) == line
    target = Target("127.0.0.1", 6443, True, "t", (1, 2))
    assignment = Assignment(target, target, "/objects")
    assert decode_assignment(encode_assignment(assignment)) == assignment
