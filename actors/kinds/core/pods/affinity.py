"""Affinity: nodes and other pods that a pod requires or prefers to run with."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.node_selector import (
    NODE_SELECTOR,
    NODE_SELECTOR_TERM,
    node_selector_rules,
    node_selector_term_rules,
)
from actors.kinds.declaration.meta import LABEL_SELECTOR, label_selector_rules
from actors.kinds.schema.fields import INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import FieldErrors, dns_label, invalid, qualified_name, required
from actors.messages import Object

PREFERRED_SCHEDULING_TERM = Struct(
    "core.v1.PreferredSchedulingTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("preference", NODE_SELECTOR_TERM, 2, required=True, always=True),
)
NODE_AFFINITY = Struct(
    "core.v1.NodeAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR, 1, pointer=True),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(PREFERRED_SCHEDULING_TERM), 2),
)
POD_AFFINITY_TERM = Struct(
    "core.v1.PodAffinityTerm",
    Field("labelSelector", LABEL_SELECTOR, 1, pointer=True),
    Field("namespaces", STRINGS, 2),
    Field("topologyKey", STRING, 3, required=True, always=True),
    Field("namespaceSelector", LABEL_SELECTOR, 4, pointer=True),
)
WEIGHTED_POD_AFFINITY_TERM = Struct(
    "core.v1.WeightedPodAffinityTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("podAffinityTerm", POD_AFFINITY_TERM, 2, required=True, always=True),
)
POD_AFFINITY = Struct(
    "core.v1.PodAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", ListOf(POD_AFFINITY_TERM), 1),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(WEIGHTED_POD_AFFINITY_TERM), 2),
)
POD_ANTI_AFFINITY = Struct(
    "core.v1.PodAntiAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", ListOf(POD_AFFINITY_TERM), 1),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(WEIGHTED_POD_AFFINITY_TERM), 2),
)
AFFINITY = Struct(
    "core.v1.Affinity",
    Field("nodeAffinity", NODE_AFFINITY, 1, pointer=True),
    Field("podAffinity", POD_AFFINITY, 2, pointer=True),
    Field("podAntiAffinity", POD_ANTI_AFFINITY, 3, pointer=True),
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    if "nodeAffinity" in affinity:
        _node_affinity_rules(errors, affinity["nodeAffinity"], f"{field}.nodeAffinity")
    for part in ("podAffinity", "podAntiAffinity"):
        if part in affinity:
            _pod_affinity_rules(errors, affinity[part], f"{field}.{part}")


def _node_affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    if REQUIRED in affinity:
        node_selector_rules(errors, affinity[REQUIRED], f"{field}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        _weight_rules(errors, term["weight"], here)
        node_selector_term_rules(errors, term["preference"], f"{here}.preference")


def _pod_affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        _term_rules(errors, term, f"{field}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        _weight_rules(errors, weighted["weight"], here)
        _term_rules(errors, weighted["podAffinityTerm"], f"{here}.podAffinityTerm")


def _weight_rules(errors: FieldErrors, weight: int, field: str) -> None:
    if not (1 <= weight <= 100):
        errors.add(invalid(f"{field}.weight", weight, "must be in the range 1-100"))


def _term_rules(errors: FieldErrors, term: Object, field: str) -> None:
    key, here = term["topologyKey"], f"{field}.topologyKey"
    label_selector_rules(errors, term.get("labelSelector"), f"{field}.labelSelector")
    label_selector_rules(errors, term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        errors.add_each(f"{field}.namespace", name, dns_label(name))
    if not key:
        errors.add(required(here, "can not be empty"))
    errors.add_each(here, key, qualified_name(key))
