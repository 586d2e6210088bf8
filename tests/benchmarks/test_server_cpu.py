"""The CPU clock and the memory of other processes, children included."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.servers.cpu import _from_ticks, cpu_seconds
from benchmarks.servers.memory import memory
from benchmarks.servers.processes import with_children

GONE = 4_194_305  # above the largest process id Linux gives out


def test_own_time_is_the_process_time() -> None:
    before = time.process_time()
    seen = cpu_seconds([os.getpid()])
    assert before <= seen <= time.process_time() + cpu_seconds(with_children([os.getpid()])[1:])


def test_a_child_counts_with_its_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in with_children([os.getpid()])
        assert memory([os.getpid()]).pss_mb >= memory([child.pid]).pss_mb
    finally:
        child.communicate(b"\n")


def test_a_process_that_has_gone_counts_nothing() -> None:
    assert cpu_seconds([GONE]) == 0.0
    assert memory([GONE]).pss_mb == 0.0
    assert _from_ticks(GONE) == 0.0
