"""The process keeps the memory of large responses, so that the next one causes no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from rewound.server.process import configure_malloc
if sys.argv[1] == "configured":
    assert configure_malloc()
def large():
    return [b"x" * (8 << 20) for _ in range(4)]
for _ in range(3):
    large()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    large()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_large_allocations_reuse_memory_without_page_faults() -> None:
    assert faults("configured") < 1000 < faults("default")
