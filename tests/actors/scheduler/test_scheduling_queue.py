"""The queue: order, backoff, and which changes wake which pods."""

from __future__ import annotations

import gc

import pytest

from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.plugins import NODE_ADD, POD_DELETE
from rewound.actors.scheduler.pods import PodFacts, Shapes
from rewound.actors.scheduler.queue import QueuedPod, SchedulingQueue
from tests.actors.scheduler.scheduling import pod

SHAPES = Shapes(KUBERNETES, frozenset())


def facts(
    name: str, priority: int = 0, version: int = 1, namespace: str = "default", **spec: object
) -> PodFacts:
    made = pod(name, priority=priority, **spec)
    made["metadata"] |= {"namespace": namespace, "uid": f"uid of {name}", "resourceVersion": str(version)}
    return SHAPES.facts(made)


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def queue(now: Time) -> SchedulingQueue:
    return SchedulingQueue(now, {POD_DELETE: frozenset(["Fit"]), NODE_ADD: frozenset(["Fit", "Affinity"])})


def popped(tested: SchedulingQueue) -> QueuedPod:
    found = tested.pop()
    assert found is not None
    return found


def test_priority_then_time_decides() -> None:
    now = Time()
    tested = queue(now)
    for at, (name, priority) in enumerate((("a", 0), ("b", 5), ("c", 0), ("d", 5))):
        now.now = float(at)
        tested.add(facts(name, priority))
    assert [popped(tested).facts.name for _ in range(4)] == ["b", "d", "a", "c"]
    assert tested.pop() is None


def test_namespaces_take_turns_among_pods_of_the_same_priority() -> None:
    tested = queue(Time())
    for number in range(4):
        tested.add(facts(f"l{number}", namespace="large"))
    assert popped(tested).facts.name == "l0"
    tested.add(facts("s0", namespace="small"))
    tested.add(facts("s1", namespace="small"))
    tested.add(facts("first", 5, namespace="large"))
    names = [popped(tested).facts.name for _ in range(6)]
    assert names == ["first", "s0", "l1", "s1", "l2", "l3"]
    assert tested.pop() is None


def test_a_pod_that_left_gives_its_priority_to_no_other_of_its_namespace() -> None:
    tested = queue(Time())
    left = facts("left", 5, namespace="a")
    tested.add(left)
    tested.add(facts("low", 0, namespace="a"))
    tested.add(facts("middle", 3, namespace="b"))
    tested.delete(left)
    assert [popped(tested).facts.name for _ in range(2)] == ["middle", "low"]
    assert tested.pop() is None


def test_pods_that_left_leave_no_entries() -> None:
    tested = queue(Time())
    for number in range(100):
        one = facts("gone", version=number, namespace=f"n{number}")
        tested.add(one)
        tested.delete(one)
    tested.add(facts("stays"))
    assert popped(tested).facts.name == "stays" and tested.pop() is None
    assert not (tested._active or tested._places or tested._order or tested._entries)


def test_only_changes_that_may_help_wake_a_pod() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    tried = popped(tested)
    tested.add_unschedulable(tried, frozenset(["Affinity"]))
    assert tested.counts() == {"active": 0, "backoff": 0, "unschedulable": 1}
    now.now = 30.0
    tested.move(POD_DELETE)
    assert tested.pop() is None
    tested.move(NODE_ADD, lambda pod, _: pod.name == "other")
    assert tested.pop() is None
    tested.move(NODE_ADD)
    assert popped(tested) is tried


def unschedulable(tested: SchedulingQueue, count: int, **spec: object) -> None:
    for number in range(count):
        tested.add(facts(f"u{number}", **spec))
        tested.add_unschedulable(popped(tested), frozenset(["Fit"]))


def woken_in_each_step(tested: SchedulingQueue) -> list[int]:
    left, found = tested.counts()["unschedulable"], []
    for _ in tested.waking():
        now = tested.counts()["unschedulable"]
        found.append(left - now)
        left = now
    return found


def test_a_change_that_helps_many_wakes_a_part_of_them_in_each_step() -> None:
    tested, asked = queue(Time()), list[str]()
    unschedulable(tested, 1000)
    for number in range(3):
        assert tested.move(NODE_ADD, lambda pod, _, number=number: not asked.append(pod.name) and number == 2)  # type: ignore[func-returns-value, misc]
    assert not asked
    steps = woken_in_each_step(tested)
    assert sum(steps) == 1000 and max(steps) <= 64
    assert len(asked) == 3000


def test_outdated_entries_of_pods_that_were_woken_go_in_steps() -> None:
    now = Time()
    tested = queue(now)
    unschedulable(tested, 1000)
    now.now = 20.0
    tested.move(NODE_ADD)
    left, removed = len(tested._due), list[int]()
    for _ in tested.waking():
        removed.append(left - len(tested._due))
        left = len(tested._due)
    assert sum(removed) > 900 and max(removed) <= 64


def test_many_that_are_due_at_once_become_active_in_steps() -> None:
    now = Time()
    tested = queue(now)
    unschedulable(tested, 1000)
    now.now = 300.0
    steps = woken_in_each_step(tested)
    assert sum(steps) > 900 and max(steps) <= 64


def test_pods_near_a_pod_that_runs_wake_in_steps() -> None:
    now = Time()
    tested = queue(now)
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    unschedulable(tested, 300, affinity=affinity)
    assert tested.move_if_near(NODE_ADD, lambda _, __: True)
    steps = woken_in_each_step(tested)
    assert sum(steps) == 300 and max(steps) <= 64


def test_more_changes_than_are_noted_help_every_pod_that_they_may_help() -> None:
    tested = queue(Time())
    unschedulable(tested, 2)
    for _ in range(5000):
        tested.move(NODE_ADD, lambda _, __: False)
    assert len(tested._changes) <= 1000
    assert tested.pop() is None
    assert tested.counts() == {"active": 0, "backoff": 2, "unschedulable": 0}


def test_backoff_doubles_up_to_its_limit() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    waits = []
    for _ in range(6):
        tried = popped(tested)
        tested.add_unschedulable(tried, frozenset(["Fit"]))
        tested.move(POD_DELETE)
        assert tested.pop() is None
        due = tested.next_due()
        assert due is not None
        waits.append(due - now.now)
        now.now = due
    assert waits == [1, 2, 4, 8, 10, 10]


def test_backoffs_of_the_same_second_end_by_priority_where_the_scheduler_does_not_wait_for_them() -> None:
    now = Time()
    wakes = {POD_DELETE: frozenset(["Fit"])}
    tested = SchedulingQueue(now, wakes, has_hints=True, pops_early=True)
    for at, (name, priority) in enumerate((("low", 0), ("high", 5), ("later", 9))):
        now.now = 0.3 + 0.4 * at  # the last one a second later
        tested.add(facts(name, priority))
        tested.add_unschedulable(popped(tested), frozenset(["Fit"]))
    tested.move(POD_DELETE)
    assert [popped(tested).facts.name for _ in range(3)] == ["high", "low", "later"]


def test_backoff_lasts_until_the_next_second_where_it_ends_in_seconds() -> None:
    now = Time()
    tested = SchedulingQueue(now, {POD_DELETE: frozenset(["Fit"])}, has_hints=True, pops_early=True)
    tested.add(facts("a"))
    tested.add_unschedulable(popped(tested), frozenset(["Fit"]))
    now.now = 1.9
    tested.move(POD_DELETE)
    for _ in tested.waking():
        pass
    assert tested.counts()["backoff"] == 1
    now.now = 2.0
    for _ in tested.waking():
        pass
    assert tested.counts()["active"] == 1


def test_a_change_during_an_attempt_is_not_missed() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    tried = popped(tested)
    tested.move(POD_DELETE)
    tested.add_unschedulable(tried, frozenset(["Fit"]))
    assert tested.counts() == {"active": 0, "backoff": 1, "unschedulable": 0}


def test_a_pod_is_tried_again_after_five_minutes() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    tested.add_unschedulable(popped(tested), frozenset(["Fit"]))
    assert tested.next_due() == 300
    now.now = 300.0
    assert popped(tested).attempts == 2


def test_an_update_of_the_spec_wakes_a_pod_and_its_status_does_not() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    tested.add_unschedulable(popped(tested), frozenset(["Fit"]))
    now.now = 20.0
    tested.update(facts("a", version=2))
    assert tested.pop() is None
    tested.update(facts("a", version=3, cpu="1"))
    assert popped(tested).facts.shape.requests == {"cpu": 1000}


def test_a_deleted_pod_leaves() -> None:
    now = Time()
    tested = queue(now)
    tested.add(facts("a"))
    tested.delete(facts("a"))
    assert tested.pop() is None
    tested.nominate(facts("b"), "node")
    assert [one.name for one in tested.nominated("node")] == ["b"]
    tested.delete(facts("b"))
    assert not tested.has_nominated


def test_pods_that_left_or_changed_are_not_held() -> None:
    before, now = in_memory(), Time()
    tested = queue(now)
    tested.add(facts("stays"))
    for number in range(500):
        gone = facts(f"p{number}")
        tested.add(gone)
        tested.update(facts("stays", number % 3, number))
        tested.delete(gone)
    assert in_memory() - before < 150
    for _ in range(300):  # each attempt fails, and something changes that may help
        now.now += 100.0
        tested.add_unschedulable(popped(tested), frozenset(["Fit"]))
        tested.move(NODE_ADD)
        now.now += 100.0
    assert popped(tested).attempts == 301
    assert tested.pop() is None and tested.next_due() is None


def in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, QueuedPod) for one in gc.get_objects())


@pytest.mark.parametrize(
    ("counts_errors", "after_errors", "after_rejection"), [(False, 8.0, 10.0), (True, 4.0, 2.0)]
)
def test_errors_have_a_backoff_of_their_own_where_the_version_counts_them(
    counts_errors: bool, after_errors: float, after_rejection: float
) -> None:
    now = Time()
    wakes = {POD_DELETE: frozenset(["Fit"])}
    tested = SchedulingQueue(now, wakes, has_hints=True, counts_errors=counts_errors)
    tested.add(facts("a"))

    def back(plugins: frozenset[str]) -> float:
        """Take the pod and give it back; returns for how long it is not tried again."""
        pod = popped(tested)
        tested.add_unschedulable(pod, plugins, is_error=not plugins)
        tested.move(POD_DELETE)
        for _ in tested.waking():
            pass
        due = tested.next_due()
        assert due is not None
        waited, now.now = due - now.now, due
        for _ in tested.waking():
            pass
        return waited

    assert back(frozenset(["Fit"])) == 1.0
    back(frozenset())
    back(frozenset())
    assert back(frozenset()) == after_errors
    assert back(frozenset(["Fit"])) == after_rejection
