"""Waits in tests are bounded: waits for a process or a thread have a timeout, polling loops a deadline.

trio's own waits are bounded by the time limit of the test (`tests/time_limit.py`), which cancels them and reports
where each task waited.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
# Methods that block a thread until another thread or process has done something.
BLOCKING = {"communicate", "join", "wait"}
PROGRAMS = {"run", "call", "check_call", "check_output"}
DEADLINES = {"fail_after", "move_on_after"}
PAUSES = {"checkpoint", "sleep"}
# Only modules with one of these words have to be parsed.
MAY_WAIT = re.compile(
    r"subprocess\.|communicate\(|hread\S*\.join\(\)|run_sync\(\S+\.wait\)|^(?!.*await).*\.wait\(\)"
    r"|while .*:\n +(await|pass)",
    re.MULTILINE,
)


def test_waits_have_a_bound() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        if MAY_WAIT.search(text := path.read_text())
        for node in unbounded(ast.parse(text))
    ]
    assert found == []


def test_tests_do_not_wait_a_fixed_time_for_idleness() -> None:
    """A busy machine exceeds any fixed length: `settled` waits for tasks, threads and the network themselves."""
    cushion = re.compile(r"wait_all_tasks_blocked\([^)]")
    found = [
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("*.py"))
        if cushion.search(path.read_text())
    ]
    assert [path for path in found if path != "test_bounded_waits.py"] == []


def test_finds_unbounded_waits() -> None:
    program = """
subprocess.run(["a"])
process.communicate()
thread.join()
await trio.to_thread.run_sync(process.wait)
async def test():
    while not done:
        await trio.sleep(1)
    with trio.fail_after(1):
        while not done:
            await trio.lowlevel.checkpoint()
    await event.wait()
    ", ".join(names)
    thread.join(60)
    subprocess.run(["a"], timeout=60)
    for _ in range(100):
        await trio.sleep(1)
    while data := await stream.receive_some():
        received += data
"""
    tree = ast.parse(program)
    assert [node.lineno for node in unbounded(tree)] == [2, 3, 4, 5, 7]


def unbounded(tree: ast.AST) -> list[ast.Call | ast.While]:
    return [*unbounded_calls(tree), *endless_loops(tree)]


def unbounded_calls(tree: ast.AST) -> list[ast.Call]:
    nodes = list(ast.walk(tree))
    awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    blocking = [call for call in calls if id(call) not in awaited and is_unbounded(call)]
    in_threads = [call for call in calls if runs_wait_in_thread(call)]
    return sorted(blocking + in_threads, key=lambda call: call.lineno)


def is_unbounded(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or any(one.arg in ("timeout", None) for one in call.keywords):
        return False
    name = call.func.attr
    if name not in BLOCKING | PROGRAMS:
        return False
    owner = ast.unparse(call.func.value).lower()
    if owner == "subprocess":
        return name in PROGRAMS
    if owner == "compression":  # a class of the product
        return False
    if name == "join":
        return not call.args and "thread" in owner
    return name == "communicate" or (name == "wait" and not call.args)


def runs_wait_in_thread(call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "run_sync"
    return named and len(call.args) == 1 and getattr(call.args[0], "attr", "") in BLOCKING


def endless_loops(tree: ast.AST, bounded: bool = False) -> Iterator[ast.While]:
    """Find loops that poll a condition outside of a deadline."""
    if isinstance(tree, ast.While) and not bounded and polls(tree):
        yield tree
    if isinstance(tree, ast.With):
        bounded = bounded or any(has_deadline(one.context_expr) for one in tree.items)
    for child in ast.iter_child_nodes(tree):
        yield from endless_loops(child, bounded)


def has_deadline(manager: ast.expr) -> bool:
    return isinstance(manager, ast.Call) and getattr(manager.func, "attr", "") in DEADLINES


def polls(loop: ast.While) -> bool:
    """Whether the loop only waits or polls: `while await stream.receive_some()` reads, `while True` is cancelled."""
    if isinstance(loop.test, ast.Constant | ast.Await):
        return False
    if all(isinstance(one, ast.Pass) for one in loop.body):
        return any(isinstance(one, ast.Await) for one in ast.walk(loop.test))
    waits = [node for one in loop.body for node in ast.walk(one) if isinstance(node, ast.Await)]
    names = {getattr(one.value.func, "attr", "") for one in waits if isinstance(one.value, ast.Call)}
    return bool(waits) and names <= PAUSES and all(isinstance(one, ast.Expr) for one in loop.body)
