"""A test in which tasks of the server hold the event loop fails with the place, and no other test does."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import trio

from tests.loop_holds import Hold, measured_run
from tests.loop_limit import LIMIT, too_long

CONFTEST = """
from pathlib import Path
from tests import loop_holds, loop_limit

loop_limit.PAUSE = 0
loop_holds._OURS = str(Path(__file__).parent / "server") + "/"
loop_holds._TESTS = (str(Path(__file__).parent / "test_"),)

def pytest_configure(config):
    config.pluginmanager.register(loop_limit.LoopLimit(lambda: SLOWER))
    config.addinivalue_line("markers", "holds_loop(reason): it holds the loop")
"""

SERVER = """
import collections, threading, time, trio

def work(seconds):
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        sum(range(100))

async def steps(count, seconds):
    for _ in range(count):
        work(seconds)
        await trio.sleep(0)

async def waits(seconds):
    await trio.sleep(0)
    time.sleep(seconds)

calls_of = collections.Counter()

async def works_once(seconds):
    await trio.sleep(0)
    calls_of["works_once"] += 1
    if calls_of["works_once"] == 1:
        work(seconds)

async def works_at_even_calls(seconds):
    await trio.sleep(0)
    calls_of["odd"] += 1
    if calls_of["odd"] % 2 == 0:
        work(seconds)

async def works_at_odd_calls(seconds):
    await trio.sleep(0)
    if calls_of["odd"] % 2 == 1:
        work(seconds)

async def calls(function, *arguments):
    await trio.sleep(0)
    function(*arguments)
"""

# Tests named test_holds... must fail.
TESTS = """
import threading
import pytest, trio
from server import tasks

async def in_a_task(function, *arguments):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function, *arguments)

async def test_holds_in_one_step():
    await in_a_task(tasks.steps, 1, 0.3)

async def test_holds_in_steps_of_one_pass():
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(tasks.steps, 1, 0.07)

def test_holds_in_a_loop_of_its_own():
    trio.run(in_a_task, tasks.steps, 1, 0.3)

def test_holds_in_a_thread():
    thread = threading.Thread(target=trio.run, args=(in_a_task, tasks.steps, 1, 0.3))
    thread.start()
    thread.join(60)

async def test_short_steps_of_one_pass():
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(tasks.steps, 1, 0.02)

async def test_many_steps():
    await in_a_task(tasks.steps, 40, 0.01)

async def test_work_of_the_test():
    tasks.work(0.3)
    await tasks.steps(1, 0.3)

async def test_work_of_the_test_that_the_server_calls():
    def work():
        tasks.work(0.3)
    await in_a_task(tasks.calls, work)

async def test_waits():
    await in_a_task(tasks.waits, 0.3)

async def test_work_of_a_first_call():
    await in_a_task(tasks.works_once, 0.3)

async def test_work_of_another_task_in_each_run():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tasks.works_at_odd_calls, 0.3)
        nursery.start_soon(tasks.works_at_even_calls, 0.3)

@pytest.mark.holds_loop("it says so")
async def test_marked():
    await in_a_task(tasks.steps, 1, 0.3)
"""


def outcomes(folder: Path, slower: float) -> tuple[set[tuple[str, str]], str]:
    (folder / "conftest.py").write_text(f"SLOWER = {slower}\n{CONFTEST}")
    (folder / "server").mkdir()
    (folder / "server" / "tasks.py").write_text(SERVER)
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\ntrio_mode = true\ntimeout = 180\npythonpath = .\n")
    off = [f"-pno:{name}" for name in ("anyio", "cacheprovider", "hypothesispytest", "rewound")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n1", "-rA", *off],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=170,
    )
    return set(re.findall(r"^(PASSED|FAILED) test_it\.py::(\w+)", run.stdout, re.MULTILINE)), run.stdout


def test_tests_that_hold_the_loop_fail_with_the_place(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path, slower=1)
    assert found == {
        ("FAILED" if name.startswith("test_holds") else "PASSED", name)
        for name in re.findall(r"def (test_\w+)", TESTS)
    }, printed
    assert re.search(r"server/tasks\.py:\d+ work\n.*server/tasks\.py:\d+ steps", printed), printed


def test_nothing_fails_on_a_machine_that_is_too_slow_to_tell(tmp_path: Path) -> None:
    found, printed = outcomes(tmp_path, slower=10)
    assert found == {("PASSED", name) for name in re.findall(r"def (test_\w+)", TESTS)}, printed


def test_a_limit_is_as_much_longer_as_the_machine_is_slower() -> None:
    holds = [Hold(0.2, 0.2, "task", ()), Hold(0.25, 0.21, "task", ()), Hold(0.9, 0.05, "many steps", ())]
    assert {task: hold.seconds for task, hold in too_long(holds).items()} == {"task": 0.25, "many steps": 0.9}
    assert list(too_long(holds, 1.5)) == ["task", "many steps"]
    assert list(too_long(holds, 2.2)) == []


def test_samples_of_other_loops_do_not_call_what_a_test_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    running, ends = threading.Event(), threading.Event()

    async def loop() -> None:
        running.set()
        with trio.fail_after(60):
            while not ends.is_set():
                await trio.sleep(0.01)

    thread = threading.Thread(target=measured_run(LIMIT, lambda hold: None), args=(loop,))
    thread.start()
    assert running.wait(60)
    with monkeypatch.context() as replaced:
        replaced.setattr(time, "sleep", sleeps.append)
        ends.wait(0.2)
    ends.set()
    thread.join(60)
    assert sleeps == []
