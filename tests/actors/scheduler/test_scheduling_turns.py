"""A decision yields to the event loop, and is valid for the cluster as it is when the decision ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from rewound.actors.messages import Object
from rewound.actors.runtime import turns
from rewound.actors.scheduler import evaluation, explanation, preemption, scheduler
from rewound.actors.scheduler.preemption import Outcome, Preemption
from tests.actors.scheduler.scheduling import add_nodes, assigned, node, open_scheduling, pod
from tests.actors.scheduler.test_explanations import asking
from tests.actors.scheduler.test_preemption import add_classes, run
from tests.actors.scheduler.test_scheduling_volumes import CLASSES, claim, storage_class, with_claim
from tests.actors.workloads.bench import Bench

NODES = 12


class Turns:
    """Every step ends a turn; counts them, and runs an action at the start of one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.before: tuple[int, Callable[[], Awaitable[None]]] | None = (
            None  # a turn, and what to do before it
        )
        monkeypatch.setattr(turns, "TURN", 0.0)
        monkeypatch.setattr(scheduler, "next_turn", self._next)
        for module in (evaluation, explanation, preemption):
            monkeypatch.setattr(module, "STEP", 1)

    async def _next(self) -> None:
        self.count += 1
        if self.before is not None and self.count == self.before[0]:
            _, act = self.before
            self.before = None
            await act()


@pytest.mark.parametrize(
    ("waiting", "most_nodes"),
    [
        (with_claim("p", "data"), 1),
        (asking("p", "1"), 3),
        (pod("p", cpu="2", priorityClassName="high"), 2),
    ],
    ids=("claims", "explanation", "preemption"),
)
async def test_long_decisions_take_turns(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, waiting: Object, most_nodes: int
) -> None:
    """Each visits all nodes, the latter two more than once: a second plain pod of the template only once."""
    async with open_scheduling(tmp_path) as bench:
        await add_classes(bench)
        await add_nodes(bench, *(node(f"n{number}", cpu="2") for number in range(NODES)))
        await bench.create(CLASSES, storage_class("fast", "example.org/disks"))
        await bench.create("persistentvolumeclaims", claim("data", "fast"))
        if "priorityClassName" in waiting["spec"]:
            for number in range(NODES):
                await run(bench, f"low-{number}", "low", cpu="1")
        counted = Turns(monkeypatch)
        await bench.create("pods", waiting)
        await bench.rest()
        assert counted.count > most_nodes * NODES


async def test_pod_does_not_get_a_node_that_was_cordoned_between_two_turns(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a", "b")
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, *map(node, names))
        counted = Turns(monkeypatch)
        await bench.create("pods", pod("first"))
        await bench.rest()
        of_one = counted.count
        assert assigned(bench)["first"] and of_one > 5
        for turn in range(1, of_one):  # the last one is after the decision
            counted.count, counted.before = 0, (turn, partial(cordon, bench, names, True))
            name = f"p{turn}"
            await bench.create("pods", pod(name, labels={"unlike": name}))
            await bench.rest()
            assert assigned(bench)[name] == "", turn
            await cordon(bench, names, False)
            await bench.rest(20)
            assert assigned(bench)[name] != ""


async def test_pod_that_takes_too_much_processor_time_is_unschedulable_and_says_why(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"))
        monkeypatch.setattr(scheduler, "MOST_SECONDS", -1.0)
        await bench.create("pods", pod("costly"))
        await bench.rest()
        condition = bench.get("pods", "costly")["status"]["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith("finding a node for the pod takes the scheduler more than")
        assert "create it with fewer containers" in condition["message"]
        monkeypatch.setattr(scheduler, "MOST_SECONDS", 5.0)
        await bench.create("pods", pod("other"))
        await bench.rest(60)
        assert assigned(bench) == {"costly": "", "other": "a"}  # no change of the cluster helps it
        await bench.rest(300)
        assert assigned(bench)["costly"] == "a"


async def cordon(bench: Bench, names: Iterable[str], is_cordoned: bool) -> None:
    for name in names:
        await bench.patch("nodes", name, {"spec": {"unschedulable": is_cordoned}})


async def test_error_of_preemption_or_explanation_fails_one_pod_only(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Outcome:
        raise KeyError("victims")

    monkeypatch.setattr(Preemption, "attempt", broken)
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a", cpu="2"))
        await bench.create("pods", asking("large", "4"))
        await bench.create("pods", pod("small", cpu="1"))
        await bench.rest()
        assert assigned(bench) == {"large": "", "small": "a"}
        condition = bench.get("pods", "large")["status"]["conditions"][0]
        assert (condition["reason"], condition["message"]) == ("SchedulerError", "KeyError: 'victims'")
    assert "the scheduler broke on pod default/large" in caplog.text
