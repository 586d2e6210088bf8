"""CPU time and memory of other processes, children included."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.servers.cpu import _from_ticks, cpu_seconds
from benchmarks.servers.memory import memory
from benchmarks.servers.processes import with_children

NO_SUCH_PID = 4_194_305  # above the largest process id of Linux


def test_cpu_seconds_of_own_process_equal_process_time() -> None:
    before = time.process_time()
    seen = cpu_seconds([os.getpid()])
    assert before <= seen <= time.process_time() + cpu_seconds(with_children([os.getpid()])[1:])


def test_child_process_counts_with_its_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in with_children([os.getpid()])
        assert memory([os.getpid()]).pss_mb >= memory([child.pid]).pss_mb
    finally:
        child.communicate(b"\n", timeout=60)


def test_ended_process_counts_as_zero() -> None:
    assert cpu_seconds([NO_SUCH_PID]) == 0.0
    assert memory([NO_SUCH_PID]).pss_mb == 0.0
    assert _from_ticks(NO_SUCH_PID) == 0.0
