"""The kinds that this server brings with it, by dialect: the catalog that a registry begins with."""

from __future__ import annotations

from types import ModuleType

from actors.kinds import (
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
from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.enablement import DEFAULT, Enablement
from actors.names import Names

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
)  # fields of theirs wait for features


def built_in(names: Names, features: frozenset[str] = frozenset(), enabled: Enablement = DEFAULT) -> Catalog:
    """All of them declared, and served where `--runtime-config` does not say otherwise."""
    declared = (definition for group in _GROUPS for definition in _declare(group, names, features))
    return Catalog().adding(declared, enabled.serves)


def _declare(group: ModuleType, names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    declared: tuple[Definition, ...] = (
        group.declare(names, features) if group in _GATED else group.declare(names)
    )
    return declared
