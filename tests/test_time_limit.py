"""A test that hangs fails, reports where it waited, and does not affect the tests after it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from tests import time_limit

time_limit.GRACE = 1.0

def pytest_configure(config):
    config.pluginmanager.register(time_limit.TimeLimit())
"""

# In the order in which one worker runs them. Tests named test_hangs... hang.
TESTS = """
import subprocess, sys, time
from pathlib import Path
import pytest, trio

at_once = pytest.mark.timeout(0.2)
cleaned = []

async def wait_for_what_never_comes():
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
        cleaned.append("task")

@at_once
async def test_hangs_in_the_event_loop():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_what_never_comes)
        await trio.sleep_forever()

async def test_next_of_the_event_loop():
    await trio.sleep(0)
    assert cleaned == ["task"]

@at_once
async def test_hangs_and_hides_it():
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        return

@at_once
async def test_hangs_with_a_clock_that_nobody_moves(mock_clock):
    await trio.sleep(1)

@pytest.fixture
async def endless():
    await trio.sleep_forever()

@at_once
async def test_hangs_in_a_fixture(endless):
    pass

@at_once
def test_hangs_in_a_loop_of_its_own():
    trio.run(wait_for_what_never_comes)

def test_next_loop_of_its_own():
    assert trio.run(trio.sleep, 0) is None and len(cleaned) == 2

@at_once
def test_hangs_without_an_event_loop():
    time.sleep(1000)

@pytest.fixture
def endless_end():
    yield
    time.sleep(1000)

@at_once
def test_hangs_after_a_failure(endless_end):
    assert False, "it failed"

@at_once
async def test_hangs_in_a_step():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    Path("child").write_text(str(child.pid))
    time.sleep(1000)

async def test_next_process():
    await trio.sleep(0)
    assert cleaned == []
"""


def test_tests_after_one_that_hangs_pass(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\ntimeout = 180\n")
    off = [f"-pno:{name}" for name in ("anyio", "cacheprovider", "hypothesispytest", "rewound")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n1", "-rA", *off],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    printed = run.stdout
    outcomes = set(re.findall(r"^(PASSED|FAILED) test_it\.py::(\w+)", printed, re.MULTILINE))
    assert outcomes == {
        ("FAILED" if name.startswith("test_hangs") else "PASSED", name)
        for name in re.findall(r"def (test_\w+)", TESTS)
    }, printed
    assert re.search(r"wait_for_what_never_comes \(test_it\.py:\d+\) > sleep_forever", printed), printed
    assert "ERROR test_it.py::test_hangs_after_a_failure - Failed: Timeout (>0.2s)" in printed, printed
    assert "worker 'gw0' crashed while running 'test_it.py::test_hangs_in_a_step'" in printed, printed
    child = Path("/proc", (tmp_path / "child").read_text(), "stat")
    assert not child.exists() or child.read_text().split()[2] == "Z", "it was left behind"
