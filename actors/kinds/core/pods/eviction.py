"""Eviction: deletes a pod if the disruption budgets that select it allow that.

`may_evict` is a pure function of a pod and its budgets. The caller reads both, calls it, writes the new status of the
budget, and only then deletes the pod; from that write on the budget counts the pod as disrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from actors.errors import EvictionRefused, Forbidden, Resource, TooManyBudgets
from actors.kinds.declaration.definition import Definition, Storage, Subresource
from actors.kinds.declaration.meta import METADATA
from actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, Field, Struct
from actors.kinds.validation import name_is_subdomain
from actors.kinds.values.times import seconds_text
from actors.messages import Object
from actors.names import Names

MAX_DISRUPTED_PODS: Final = 2000  # in status.disruptedPods: the controller has not seen them deleted
RETRY_AFTER: Final = 10  # seconds, while the controller has not observed the latest generation
BUDGET: Final = Resource("policy", "poddisruptionbudget")

PRECONDITIONS = Struct(
    "meta.v1.Preconditions",
    Field("uid", STRING, 1, pointer=True),
    Field("resourceVersion", STRING, 2, pointer=True),
)
DELETE_OPTIONS = Struct(
    "meta.v1.DeleteOptions",
    Field("kind", STRING, 0),
    Field("apiVersion", STRING, 0),
    Field("gracePeriodSeconds", INT64, 1, pointer=True),
    Field("preconditions", PRECONDITIONS, 2, pointer=True),
    Field("orphanDependents", BOOL, 3, pointer=True),
    Field("propagationPolicy", STRING, 4, pointer=True),
    Field("dryRun", STRINGS, 5),
)
EVICTION = Struct("policy.v1.Eviction", METADATA, Field("deleteOptions", DELETE_OPTIONS, 2, pointer=True))


def eviction(_: Names) -> Subresource:
    view = Definition(
        group="policy",
        version="v1",
        kind="Eviction",
        plural="evictions",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=EVICTION,
        storage=Storage(also_accepts="policy/v1beta1"),
    )
    return Subresource(
        name="eviction", verbs=("create",), kind="Eviction", group="policy", version="v1", view=view
    )


@dataclass(frozen=True, slots=True)
class AllowedEviction:
    """The pod may be deleted: after the budget gets `budget_status`, and with `if_unchanged` only in this version."""

    budget_status: Object | None = None
    if_unchanged: bool = False


def may_evict(pod: Object, budgets: Sequence[Object], now: int) -> AllowedEviction:
    """`budgets` are those whose selectors match the pod. Raise an API error when they do not allow the eviction."""
    if is_exempt_from_budgets(pod):
        return AllowedEviction(
            if_unchanged=pod["status"].get("phase") == "Pending" and not _is_being_deleted(pod)
        )
    if not budgets:
        return AllowedEviction()
    if len(budgets) > 1:
        raise TooManyBudgets
    budget = budgets[0]
    status = budget["status"]
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not is_ready(pod) and healthy >= wanted > 0:
        return AllowedEviction(if_unchanged=True)
    return AllowedEviction(budget_status=_with_disruption(budget, pod["metadata"]["name"], now))


def is_exempt_from_budgets(pod: Object) -> bool:
    """Whether the pod has terminated, has not started or is being deleted: evicting it disrupts nothing."""
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or _is_being_deleted(pod)


def _is_being_deleted(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", ())
    )


def _with_disruption(budget: Object, pod: str, now: int) -> Object:
    """The budget's status with one allowed disruption less."""
    metadata, status = budget["metadata"], budget["status"]
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise EvictionRefused(why, RETRY_AFTER)
    if allowed < 0:
        raise Forbidden(BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", ())) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden(BUDGET, name, why)
    if not allowed:
        healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        why = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise EvictionRefused(why)
    disrupted = {**status.get("disruptedPods", {}), pod: seconds_text(now)}
    budget_status = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": dict(sorted(disrupted.items())),
    }
    if allowed == 1:
        budget_status["conditions"] = _exhausted_conditions(status, now)
    return budget_status


def _exhausted_conditions(status: Object, now: int) -> list[Object]:
    """The conditions of an exhausted budget, with DisruptionAllowed set to False."""
    conditions: list[Object] = list(status.get("conditions", ()))
    places = (place for place, one in enumerate(conditions) if one["type"] == "DisruptionAllowed")
    place = next(places, len(conditions))
    current = conditions[place] if place < len(conditions) else {}
    since = current["lastTransitionTime"] if current.get("status") == "False" else seconds_text(now)
    seen = {"observedGeneration": status["observedGeneration"]} if "observedGeneration" in status else {}
    exhausted = {"type": "DisruptionAllowed", "status": "False", **seen, "lastTransitionTime": since}
    conditions[place : place + 1] = [{**exhausted, "reason": "InsufficientPods", "message": ""}]
    return conditions
