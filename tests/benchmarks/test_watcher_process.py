"""The watcher process and the bare loop of sends: every watcher gets every event once, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.baselines.send_loop import bare_loop
from benchmarks.baselines.send_loop_server import chunk
from benchmarks.loads.job import LoadFailed
from benchmarks.options import Options, parse
from benchmarks.servers.endpoint import Endpoint
from benchmarks.watchers.commands import (
    Assignment,
    Deliver,
    Open,
    decode_assignment,
    decode_command,
    encode_assignment,
    encode_command,
)
from benchmarks.watchers.watcher import MARK
from benchmarks.watchers.watcher_process import WatcherProcess
from tests.cases import cases


def _options(folder: Path) -> Options:
    return parse(["--quick", "--scratch", str(folder)])


@pytest.mark.parametrize("tls", [False, True])
def test_every_watcher_gets_every_event(tmp_path: Path, tls: bool) -> None:
    with (
        bare_loop(_options(tmp_path), 1300, tls=tls) as endpoint,
        WatcherProcess(Assignment(endpoint, endpoint, "/")) as process,
    ):
        process.open(Open(7, ("/",)))
        done = process.deliver(Deliver(4))
        assert (done.deliveries, done.bytes_received) == (28, 28 * 1300)
        assert done.server_cpu > 0
        assert set(done.latency_ms) == set(done.last_ms) == {"p50", "p95", "p99", "max"}


def test_stalled_watchers_read_when_released(tmp_path: Path) -> None:
    with (
        bare_loop(_options(tmp_path), 1300, tls=False) as endpoint,
        WatcherProcess(Assignment(endpoint, endpoint, "/")) as process,
    ):
        process.open(Open(2, ("/",)))
        process.open(Open(3, ("/",), stalled=True))
        assert process.deliver(Deliver(1)).deliveries == 2
        assert process.release().deliveries == 3
        assert process.deliver(Deliver(1)).deliveries == 5


def test_refused_connection_is_reported(tmp_path: Path) -> None:
    unused = Endpoint("127.0.0.1", 1, False, "", ())
    with (
        WatcherProcess(Assignment(unused, unused, "/")) as process,
        pytest.raises(LoadFailed, match="connect"),
    ):
        process.open(Open(1, ("/",)))


@cases("size", [200, 1300, 4100, 70_000])
def test_event_of_the_send_loop_has_one_mark_and_the_given_size(size: int) -> None:
    made = chunk(size)
    assert (len(made), made.count(MARK)) == (size, 1)


def test_commands_and_assignments_are_encoded_as_lines() -> None:
    for command in (Open(3, ("/a", "/b"), missed=2), Deliver(10, step=5, writers=2)):
        line = encode_command(command)
        assert "\n" not in line
        decoded = decode_command(line)
        assert type(decoded) is type(command) and encode_command(decoded) == line
    endpoint = Endpoint("127.0.0.1", 6443, True, "t", (1, 2))
    assignment = Assignment(endpoint, endpoint, "/objects")
    assert decode_assignment(encode_assignment(assignment)) == assignment
