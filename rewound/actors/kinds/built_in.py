"""The built-in kinds by dialect and profile: the catalog that a registry starts with."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from rewound.actors.kinds import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    scheduling,
    storage,
)
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import DEFAULT, Enablement
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules, default_rules

# In the order in which discovery has always listed them.
_GROUPS = (
    core,
    apiregistration,
    apps,
    events,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    networking,
    policy,
    rbac,
    storage,
    admissionregistration,
    apiextensions,
    scheduling,
    coordination,
    node,
    discovery,
    flowcontrol,
)
_GATED = frozenset(
    {core, apps, autoscaling, batch, networking, policy, storage}
)  # some of their fields depend on feature gates
_RULED = frozenset({apps, policy, rbac})  # their behaviour depends on the profile


def built_in(
    names: Names,
    features: frozenset[str] = frozenset(),
    enabled: Enablement = DEFAULT,
    rules: Rules | None = None,
) -> Catalog:
    """Return a catalog that declares all built-in kinds, and serves those that `--runtime-config` does not turn off.

    Without `rules`, they follow those of the dialect.
    """
    rules = rules or default_rules(names.dialect)
    declared = (definition for group in _GROUPS for definition in _declare(group, names, features, rules))
    return Catalog().adding(declared, enabled.serves)


def _declare(
    group: ModuleType, names: Names, features: frozenset[str], rules: Rules
) -> tuple[Definition, ...]:
    gated: tuple[Any, ...] = (features,) if group in _GATED else ()
    ruled: tuple[Any, ...] = (rules,) if group in _RULED else ()
    declared: tuple[Definition, ...] = group.declare(names, *gated, *ruled)
    return declared if rules == DOCUMENTED else tuple(_with_rules(one, rules) for one in declared)


def _with_rules(definition: Definition, rules: Rules) -> Definition:
    subresources = tuple(
        replace(one, view=replace(one.view, rules=rules)) if one.view is not None else one
        for one in definition.subresources
    )
    return replace(definition, subresources=subresources, rules=rules)
