"""The memory of the process: how often it is read, when the process is full, and the default of its limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewound.gateway.memory.process import PERIOD, ProcessMemory, anonymous_bytes, default_limit
from rewound.gateway.settings.settings import LEAST_MEMORY, least_memory

GIB = 1 << 30


class Machine:
    """A process whose memory and clock the test sets."""

    def __init__(self) -> None:
        self.used, self.now, self.reads, self.trims = 0, 100.0, 0, 0

    def read(self) -> int:
        self.reads += 1
        return self.used

    def trim(self) -> None:
        self.trims += 1

    def memory(self, limit: int) -> ProcessMemory:
        return ProcessMemory(limit, self.read, lambda: self.now, self.trim)


def test_memory_is_read_at_most_once_a_period() -> None:
    machine = Machine()
    memory = machine.memory(1000)
    for _ in range(10):
        assert not memory.is_full()
    assert machine.reads == 1
    assert memory.next_check == machine.now + PERIOD
    machine.now += PERIOD
    assert not memory.is_full()
    assert machine.reads == 2


def test_memory_of_other_processes_of_the_server_counts() -> None:
    machine = Machine()
    memory = machine.memory(1000)
    memory.count_others([os.getpid(), 1 << 30])  # there is none with that id
    assert memory.used > 1 << 20
    assert memory.is_full()
    memory.count_others([])
    machine.now += PERIOD
    assert memory.used == 0


def test_every_request_asks_until_there_is_room_again() -> None:
    machine = Machine()
    memory = machine.memory(1000)
    machine.used = 1001
    assert memory.is_full()
    assert memory.next_check < machine.now
    machine.used = 999
    assert memory.is_full()
    machine.now += PERIOD
    assert not memory.is_full()
    assert memory.next_check > machine.now


def test_free_memory_is_returned_to_the_kernel_now_and_then_while_there_is_no_room() -> None:
    machine = Machine()
    memory = machine.memory(1000)
    machine.used = 800
    assert memory.has_room(200)
    assert machine.trims == 0
    for _ in range(100):
        assert not memory.has_room(201)
        machine.now += PERIOD
    assert machine.trims == 2


def test_anonymous_memory_grows_with_what_the_process_holds() -> None:
    before = anonymous_bytes()
    held = b"x" * (64 << 20)
    assert anonymous_bytes() - before > 32 << 20
    assert len(held) == 64 << 20


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/system.slice/one\n", "sys/fs/cgroup/system.slice/one/memory.max"),
        ("0::/system.slice/one\n", "sys/fs/cgroup/system.slice/memory.max"),
        ("0::/elsewhere\n", "sys/fs/cgroup/memory.max"),
        ("4:memory:/docker/one\n3:cpu:/\n0::/\n", "sys/fs/cgroup/memory/docker/one/memory.limit_in_bytes"),
        ("4:cpu,memory:/docker/one\n", "sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ],
)
def test_default_limit_is_half_of_what_the_control_group_allows(
    tmp_path: Path, groups: str, file: str
) -> None:
    write(tmp_path, "proc/self/cgroup", groups)
    write(tmp_path, file, f"{GIB}\n")
    assert default_limit(root=tmp_path) == GIB // 2


def test_default_limit_without_control_groups_is_half_of_the_machine(tmp_path: Path) -> None:
    machine = default_limit(root=tmp_path)
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    assert default_limit(root=tmp_path) == machine >= LEAST_MEMORY


def test_default_limit_is_never_too_little_to_serve(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "1000000\n")
    assert default_limit(root=tmp_path) == LEAST_MEMORY


def test_default_limit_is_at_least_what_all_workers_need(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "1000000\n")
    assert default_limit(4, tmp_path) == least_memory(4) > least_memory(2) > LEAST_MEMORY
