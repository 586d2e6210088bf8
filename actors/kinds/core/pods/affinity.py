"""Nodes and neighbours that a pod must have, or would like to have."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.node_selector import (
    NODE_SELECTOR,
    NODE_SELECTOR_TERM,
    node_selector_rules,
    node_selector_term_rules,
)
from actors.kinds.declaration.label_selector import LABEL_SELECTOR, label_selector_rules
from actors.kinds.schema.fields import INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import FieldError, dns_label, each, invalid, qualified_name, required
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


def affinity_rules(affinity: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "nodeAffinity" in affinity:
        errors += _to_nodes(affinity["nodeAffinity"], f"{field}.nodeAffinity")
    for part in ("podAffinity", "podAntiAffinity"):
        if part in affinity:
            errors += _to_pods(affinity[part], f"{field}.{part}")
    return errors


def _to_nodes(affinity: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if REQUIRED in affinity:
        errors += node_selector_rules(affinity[REQUIRED], f"{field}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        errors += _weight(term["weight"], here)
        errors += node_selector_term_rules(term["preference"], f"{here}.preference")
    return errors


def _to_pods(affinity: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        errors += _term(term, f"{field}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        errors += _weight(weighted["weight"], here)
        errors += _term(weighted["podAffinityTerm"], f"{here}.podAffinityTerm")
    return errors


def _weight(weight: int, field: str) -> list[FieldError]:
    return [] if 1 <= weight <= 100 else [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _term(term: Object, field: str) -> list[FieldError]:
    key, here = term["topologyKey"], f"{field}.topologyKey"
    errors = label_selector_rules(term.get("labelSelector"), f"{field}.labelSelector")
    errors += label_selector_rules(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        errors += each(f"{field}.namespace", name, dns_label(name))
    if not key:
        errors.append(required(here, "can not be empty"))
    return errors + each(here, key, qualified_name(key))
