"""Eviction: pods are evicted as far as budgets allow, and budgets record it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import EvictionRefused, Forbidden, TooManyBudgets
from actors.kinds.core.pods.eviction import may_evict

NOW = 1_600_000_000_000_000
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pod(phase: str = "Running", ready: bool = True, **metadata: Any) -> dict[str, Any]:
    status = {"phase": phase, **(READY if ready else {})}
    return {"metadata": {"name": "p", **metadata}, "spec": {}, "status": status}


def budget(allowed: int = 1, **status: Any) -> dict[str, Any]:
    found = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, **status}
    return {"metadata": {"name": "b"}, "spec": {}, "status": found}


def test_without_budgets_it_goes() -> None:
    verdict = may_evict(pod(), [], NOW)
    assert (verdict.budget_status, verdict.if_unchanged) == (None, False)


@pytest.mark.parametrize(
    ("one", "if_unchanged"),
    [
        (pod("Succeeded"), False),
        (pod("Failed"), False),
        (pod("Pending"), True),
        (pod(deletionTimestamp="2020-01-01T00:00:00Z"), False),
        (pod("Pending", deletionTimestamp="2020-01-01T00:00:00Z"), False),
    ],
)
def test_what_does_not_count_is_not_asked_for(one: Any, if_unchanged: bool) -> None:
    verdict = may_evict(one, [budget(0)], NOW)
    assert (verdict.budget_status, verdict.if_unchanged) == (None, if_unchanged)


def test_the_budget_pays() -> None:
    verdict = may_evict(pod(), [budget(2, disruptedPods={"o": "2020-01-01T00:00:00Z"})], NOW)
    assert verdict.budget_status == {
        "disruptionsAllowed": 1,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "disruptedPods": {"o": "2020-01-01T00:00:00Z", "p": "2020-09-13T12:26:40Z"},
    }


@pytest.mark.parametrize(
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
def test_a_budget_that_is_spent_says_so(before: list[Any], since: str | None) -> None:
    other = {"type": "Other", "status": "True"}
    budget_status = may_evict(pod(), [budget(1, conditions=[*before, other])], NOW).budget_status
    assert budget_status is not None
    (told,) = [one for one in budget_status["conditions"] if one != other]
    assert other in budget_status["conditions"]
    assert (told["status"], told["reason"], told["message"]) == ("False", "InsufficientPods", "")
    assert told["lastTransitionTime"].startswith(since or "2020-09-13T12:26:40Z")


def test_nothing_is_left() -> None:
    with pytest.raises(EvictionRefused) as refused:
        may_evict(pod(), [budget(0)], NOW)
    assert str(refused.value) == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused.value.causes
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget b needs 2 healthy pods and has 3 currently"
    assert refused.value.retry_after == 0


def test_a_budget_that_has_not_been_looked_at() -> None:
    fresh = budget()
    fresh["metadata"]["generation"] = 1
    with pytest.raises(EvictionRefused) as refused:
        may_evict(pod(), [fresh], NOW)
    assert refused.value.retry_after == 10
    assert (
        refused.value.causes[0].message == "The disruption budget b is still being processed by the server."
    )


def test_who_is_not_ready_is_not_missed() -> None:
    verdict = may_evict(pod(ready=False), [budget(0)], NOW)
    assert (verdict.budget_status, verdict.if_unchanged) == (None, True)
    with pytest.raises(EvictionRefused):
        may_evict(pod(ready=False), [budget(0, currentHealthy=1)], NOW)
    with pytest.raises(EvictionRefused):
        may_evict(pod(ready=False), [budget(0, desiredHealthy=0)], NOW)


def test_strange_budgets() -> None:
    with pytest.raises(Forbidden, match="pdb disruptions allowed is negative"):
        may_evict(pod(), [budget(-1)], NOW)
    many = {f"p{number}": "2020-01-01T00:00:00Z" for number in range(2001)}
    with pytest.raises(Forbidden, match="DisruptedPods map too big"):
        may_evict(pod(), [budget(1, disruptedPods=many)], NOW)
    with pytest.raises(TooManyBudgets):
        may_evict(pod(), [budget(), budget()], NOW)
