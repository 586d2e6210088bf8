"""Eviction: pods are evicted as far as budgets allow, and budgets record it."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import EvictionRefused, Forbidden, TooManyBudgets
from rewound.actors.kinds.core.pod import may_evict
from tests.cases import cases

NOW = 1_600_000_000_000_000
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pod(phase: str = "Running", ready: bool = True, **metadata: Any) -> dict[str, Any]:
    status = {"phase": phase, **(READY if ready else {})}
    return {"metadata": {"name": "p", **metadata}, "spec": {}, "status": status}


def budget(allowed: int = 1, **status: Any) -> dict[str, Any]:
    fields = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, **status}
    return {"metadata": {"name": "b"}, "spec": {}, "status": fields}


def test_pod_without_budgets_may_be_evicted() -> None:
    allowed = may_evict(pod(), [], NOW)
    assert (allowed.budget_status, allowed.if_unchanged) == (None, False)


@cases(
    ("one", "if_unchanged"),
    [
        (pod("Succeeded"), False),
        (pod("Failed"), False),
        (pod("Pending"), True),
        (pod(deletionTimestamp="2020-01-01T00:00:00Z"), False),
        (pod("Pending", deletionTimestamp="2020-01-01T00:00:00Z"), False),
    ],
)
def test_terminated_pending_and_deleted_pods_are_exempt_from_budgets(one: Any, if_unchanged: bool) -> None:
    allowed = may_evict(one, [budget(0)], NOW)
    assert (allowed.budget_status, allowed.if_unchanged) == (None, if_unchanged)


def test_eviction_records_the_pod_and_takes_one_disruption_from_the_budget() -> None:
    allowed = may_evict(pod(), [budget(2, disruptedPods={"o": "2020-01-01T00:00:00Z"})], NOW)
    assert allowed.budget_status == {
        "disruptionsAllowed": 1,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "disruptedPods": {"o": "2020-01-01T00:00:00Z", "p": "2020-09-13T12:26:40Z"},
    }


@cases(
    ("before", "since"),
    [
        ([], "2020-09-13T12:26:40Z"),
        ([{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "m"}], None),
        (
            [{"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "2019-01-01T00:00:00Z"}],
            "2019",
        ),
    ],
)
def test_last_disruption_sets_the_condition_of_the_budget_to_false(
    before: list[Any], since: str | None
) -> None:
    other = {"type": "Other", "status": "True"}
    budget_status = may_evict(pod(), [budget(1, conditions=[*before, other])], NOW).budget_status
    assert budget_status is not None
    (condition,) = [one for one in budget_status["conditions"] if one != other]
    assert other in budget_status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "InsufficientPods",
        "",
    )
    assert condition["lastTransitionTime"].startswith(since or "2020-09-13T12:26:40Z")


def test_eviction_is_refused_without_allowed_disruptions() -> None:
    with pytest.raises(EvictionRefused) as refused:
        may_evict(pod(), [budget(0)], NOW)
    assert str(refused.value) == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.value.causes
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget b needs 2 healthy pods and has 3 currently"
    assert refused.value.retry_after == 0


def test_eviction_is_refused_while_the_controller_has_not_observed_the_budget() -> None:
    fresh = budget()
    fresh["metadata"]["generation"] = 1
    with pytest.raises(EvictionRefused) as refused:
        may_evict(pod(), [fresh], NOW)
    assert refused.value.retry_after == 10
    assert (
        refused.value.causes[0].message == "The disruption budget b is still being processed by the server."
    )


def test_unready_pod_may_be_evicted_while_enough_pods_are_healthy() -> None:
    allowed = may_evict(pod(ready=False), [budget(0)], NOW)
    assert (allowed.budget_status, allowed.if_unchanged) == (None, True)
    with pytest.raises(EvictionRefused):
        may_evict(pod(ready=False), [budget(0, currentHealthy=1)], NOW)
    with pytest.raises(EvictionRefused):
        may_evict(pod(ready=False), [budget(0, desiredHealthy=0)], NOW)


def test_invalid_or_several_budgets_refuse_the_eviction() -> None:
    with pytest.raises(Forbidden, match="pdb disruptions allowed is negative"):
        may_evict(pod(), [budget(-1)], NOW)
    many = {f"p{number}": "2020-01-01T00:00:00Z" for number in range(2001)}
    with pytest.raises(Forbidden, match="DisruptedPods map too big"):
        may_evict(pod(), [budget(1, disruptedPods=many)], NOW)
    with pytest.raises(TooManyBudgets):
        may_evict(pod(), [budget(), budget()], NOW)
