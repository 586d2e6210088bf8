"""What a Deployment decides about its ReplicaSets, given only their sizes and available pods."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.steps import exhausted
from rewound.actors.versions.features import V1_25
from rewound.actors.workloads.rollout import (
    Annotations,
    Create,
    Remove,
    Rollout,
    Scale,
    Step,
    Wake,
    WriteStatus,
)

NOW = 1_700_000_000_000_000
KEYS = Annotations.of(CLUSTER)


def template(image: str) -> Object:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(replicas: int, surge: int | str, unavailable: int | str, **more: object) -> Object:
    """A Deployment that wants the image `new`, with revision 9."""
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    status: Object = {"observedGeneration": 1, "conditions": [_progressing()]}
    return {
        "metadata": {"name": "web", "namespace": "n", "generation": 1, "annotations": {KEYS.revision: "9"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": limits},
            "template": template("new"),
            "progressDeadlineSeconds": 600,
            **more,
        },
        "status": status,
    }


def _progressing() -> Object:
    return {"type": "Progressing", "status": "True", "reason": "x", "lastUpdateTime": seconds_text(NOW)}


def replica_set(
    name: str, size: int, available: int, desired: int, maximum: int, revision: int = 1
) -> Object:
    annotations = {
        KEYS.desired: str(desired),
        KEYS.maximum: str(maximum),
        KEYS.revision: str(9 if name == "new" else revision),
    }
    return {
        "metadata": {
            "name": name,
            "annotations": annotations,
            "generation": 1,
            "creationTimestamp": seconds_text(NOW + (name == "new") * 1_000_000),
        },
        "spec": {"replicas": size, "template": template(name)},
        "status": {"replicas": size, "availableReplicas": available, "observedGeneration": 1},
    }


def steps(wanted: Object, *sets: Object) -> Sequence[Step]:
    return Rollout(KEYS, wanted, sets, NOW, lambda _: False).steps()


def scaled(wanted: Object, *sets: Object) -> list[tuple[str, int, int]]:
    found = steps(wanted, *sets)
    return [(one.name, one.before, one.after) for one in found if isinstance(one, Scale)]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "created"),
    [(10, 3, 2, 3), (10, "25%", "25%", 3), (4, "0%", "10%", 0), (1, "1%", 0, 1), (3, 10, 0, 3)],
)
def test_a_new_replica_set_has_the_size_of_the_surge(
    replicas: int, surge: int | str, unavailable: int | str, created: int
) -> None:
    wanted = deployment(replicas, surge, unavailable)
    old = replica_set("old", replicas, replicas, replicas, replicas)
    rollout = Rollout(KEYS, wanted, (old,), NOW, lambda _: False)
    assert rollout.steps() == (Create("2"),)
    assert exhausted(rollout.new_set("2"))["spec"]["replicas"] == created


def test_without_a_replica_set_all_replicas_are_made_at_once() -> None:
    rollout = Rollout(KEYS, deployment(7, 1, 1), (), NOW, lambda _: False)
    assert rollout.steps() == (Create("1"),)
    assert exhausted(rollout.new_set("1"))["spec"]["replicas"] == 7


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "old", "new", "expected"),
    [
        # size and available of each
        (10, 3, 2, (10, 10), (3, 0), [("old", 10, 8)]),
        (10, 3, 2, (8, 8), (3, 0), [("new", 3, 5)]),
        (10, 3, 2, (8, 8), (5, 0), []),
        (10, 3, 2, (8, 8), (5, 2), [("old", 8, 6)]),
        (10, 3, 2, (8, 5), (5, 0), []),
        (10, 3, 2, (10, 4), (3, 3), [("old", 10, 5)]),
        (2, 0, "1%", (2, 2), (0, 0), [("old", 2, 1)]),  # both zero counts as one unavailable
        (5, 3, 2, (5, 11), (3, 0), []),  # it has not observed its size yet
        (3, 1, 0, (0, 0), (5, 5), [("new", 5, 3)]),
    ],
)
def test_steps_of_a_rolling_update(
    replicas: int,
    surge: int | str,
    unavailable: int | str,
    old: tuple[int, int],
    new: tuple[int, int],
    expected: list[tuple[str, int, int]],
) -> None:
    found = scaled(
        deployment(replicas, surge, unavailable),
        replica_set("old", *old, desired=replicas, maximum=replicas),
        replica_set("new", *new, desired=replicas, maximum=replicas),
    )
    assert found == expected


def test_unavailable_pods_go_first_then_the_oldest() -> None:
    wanted = deployment(10, 3, 2)
    first = replica_set("a", 5, 2, 10, 13)
    second = replica_set("b", 5, 5, 10, 13)
    assert scaled(wanted, first, second, replica_set("new", 3, 3, 10, 13)) == [
        ("a", 5, 2),
        ("a", 2, 0),
    ]


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (15, [("old", 8, 11), ("new", 5, 7)]),
        (5, [("old", 8, 5), ("new", 5, 3)]),
        (0, [("old", 8, 0), ("new", 5, 0)]),
    ],
)
def test_scaling_in_a_rollout_is_in_proportion(replicas: int, expected: list[tuple[str, int, int]]) -> None:
    sets = replica_set("old", 8, 8, 10, 13), replica_set("new", 5, 0, 10, 13)
    assert scaled(deployment(replicas, 3, 2), *sets) == expected


def test_events_of_scaling_in_proportion_have_the_direction_of_the_whole() -> None:
    sets = replica_set("old", 9, 9, 9, 10), replica_set("new", 2, 0, 3, 4)  # this one was adopted
    messages = [one.message(V1_25) for one in steps(deployment(5, 1, 0), *sets) if isinstance(one, Scale)]
    assert messages == [
        "Scaled down replica set old to 3 from 9",
        "Scaled down replica set new to 3 from 2",
    ]


def test_no_replicas_have_a_surge_too() -> None:
    (step,) = steps(deployment(0, 3, 2), replica_set("new", 5, 5, 5, 8))
    assert isinstance(step, Scale) and step.annotations == {KEYS.desired: "0", KEYS.maximum: "3"}


def test_old_replica_sets_shrink_when_the_new_one_has_all() -> None:
    sets = replica_set("old", 2, 2, 5, 6), replica_set("new", 3, 3, 3, 4)
    assert scaled(deployment(3, 1, 0), *sets) == [("old", 2, 0)]


def test_history_loses_the_lowest_revisions() -> None:
    wanted = deployment(1, 1, 0, revisionHistoryLimit=1)
    wanted["status"] |= {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    old = [replica_set(f"old{number}", 0, 0, 1, 2, revision=number) for number in (3, 1, 2)]
    assert steps(wanted, *old, replica_set("new", 1, 1, 1, 2)) == [Remove("old1"), Remove("old2")]


def test_time_alone_leads_to_nothing_after_a_rollout_that_completed() -> None:
    """Otherwise a Deployment that completed long ago, and now lacks a pod, would be reconciled without a pause."""
    wanted = deployment(2, 1, 0, progressDeadlineSeconds=600)
    new = replica_set("new", 2, 1, 2, 3)
    long_ago = "2000-01-01T00:00:00Z"
    times = {"lastUpdateTime": long_ago, "lastTransitionTime": long_ago}
    progress = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", **times}
    wanted["status"]["conditions"] = [progress]
    for _ in range(3):
        found = steps(wanted, new)
        wanted["status"] = next(
            (one.status for one in found if isinstance(one, WriteStatus)), wanted["status"]
        )
    assert list(found) == []


def test_progress_is_looked_for_when_its_time_has_passed() -> None:
    wanted, new = deployment(1, 1, 0), replica_set("new", 1, 0, 1, 2)
    (status,) = steps(wanted, new)
    wanted["status"] = status.status  # type: ignore[union-attr]
    (wake,) = steps(wanted, new)
    assert isinstance(wake, Wake) and 600 < wake.seconds < 601
