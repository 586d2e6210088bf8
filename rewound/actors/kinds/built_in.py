"""The built-in kinds by dialect, version and profile: the catalog that a registry starts with."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from rewound.actors.kinds import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apiserverinternal,
    apps,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    discovery,
    events,
    flowcontrol,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
    storagemigration,
)
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.core import group as core
from rewound.actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    PrepareForUpdate,
    Storage,
    Strategy,
    Subresource,
)
from rewound.actors.kinds.enablement import DEFAULT, Enablement
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.kinds.schema.gated import Drop, gated_fields
from rewound.actors.kinds.schema.projection import structs_of
from rewound.actors.kinds.validation import wording
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import Rules, default_rules
from rewound.actors.versions.features import NO_NULL_CREATION_TIME, SINGULAR_NAMES, V1_25, Release
from rewound.actors.versions.version import exists_in, later

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
    resource,
    storagemigration,
    apiserverinternal,
)
_GATED = frozenset(
    {
        admissionregistration,
        certificates,
        core,
        apiextensions,
        discovery,
        apps,
        autoscaling,
        batch,
        flowcontrol,
        networking,
        policy,
        resource,
        scheduling,
        storage,
    }
)  # some of their fields depend on feature gates
_RULED = frozenset({apps, policy, rbac})  # their behaviour depends on the profile


def built_in(
    names: Names,
    release: Release = V1_25,
    enabled: Enablement = DEFAULT,
    rules: Rules | None = None,
) -> Catalog:
    """Return a catalog of the built-in kinds of a version, serving those that `--runtime-config` does not turn off.

    Types that a later version introduced are not declared; those that an earlier version had last are declared, for
    their stored objects, but not served. Without `rules`, kinds follow those of the dialect.
    """
    rules = rules or default_rules(names.dialect)
    declared = [one for group in _GROUPS for one in _declare(group, names, release.features, rules)]
    existing = {one.type_name for one in declared if _has_come(one, release)}
    stored = {one.type_name: one.fields for one in declared if not one.storage.stored_as}
    made = (
        _in_release(one, release, rules, stored[one.type_name])
        for one in declared
        if _has_come(one, release) or (one.type_name in existing and not one.storage.stored_as)
    )
    return Catalog(structs_of(release.version)).adding(
        made, lambda one: _exists(one, release) and enabled.serves(one)
    )


@cache  # servers of one process share declarations, and with them the projections of their structs
def _declare(
    group: ModuleType, names: Names, features: frozenset[str], rules: Rules
) -> tuple[Definition, ...]:
    gated: tuple[Any, ...] = (features,) if group in _GATED else ()
    ruled: tuple[Any, ...] = (rules,) if group in _RULED else ()
    declared: tuple[Definition, ...] = group.declare(names, *gated, *ruled)
    return declared


def _has_come(definition: Definition, release: Release) -> bool:
    """Whether the version or an earlier one introduced the definition."""
    return exists_in(release.version, definition.since, "")


def _exists(declared: Definition | Subresource, release: Release) -> bool:
    is_on = not declared.gate or declared.gate in release.features
    return is_on and exists_in(release.version, declared.since, declared.until)


def _in_release(
    definition: Definition, release: Release, rules: Rules, stored: Struct | None = None
) -> Definition:
    """Return the definition with the fields, subresources and columns that the version has.

    `stored` is the form in which the strategy sees objects, if it is not that of the definition.
    """
    fields = structs_of(release.version).project(definition.fields)
    drop = gated_fields(structs_of(release.version).project(stored or definition.fields), release.features)
    columns = tuple(
        one for one in definition.table.columns if exists_in(release.version, one.since, one.until)
    )
    return replace(
        definition,
        names=_names(definition, release),
        fields=fields,
        subresources=tuple(
            _subresource(one, drop, release, rules)
            for one in definition.subresources
            if _exists(one, release)
        ),
        table=msgspec.structs.replace(definition.table, columns=columns),
        storage=_storage(definition.storage, release),
        strategy=_strategy(definition.strategy, drop),
        deprecation_warning=_deprecation(definition, release),
        null_creation_time=NO_NULL_CREATION_TIME not in release.features,
        features=release.features,
        rules=rules,
    )


def _deprecation(definition: Definition, release: Release) -> str:
    """Return the warning in every response about this version of the kind; "" if it is not deprecated.

    Kubernetes deprecates an alpha or beta version three versions after it came, and removes it three versions later.
    """
    text, deprecated = wording(definition.deprecation_warning, release.features), definition.deprecated
    is_stable = "alpha" not in definition.version and "beta" not in definition.version
    if not definition.deprecation_warning:
        if is_stable or not definition.announces_end or not definition.since:
            return ""
        deprecated = deprecated or later(definition.since, 3)
        text = (
            f"{definition.api_version} {definition.kind} is deprecated in v{deprecated}+, "
            f"unavailable in v{later(deprecated, 3)}+"
        )
    return text if exists_in(release.version, deprecated, "") else ""


def _names(definition: Definition, release: Release) -> DiscoveryNames:
    if SINGULAR_NAMES not in release.features:
        return definition.names
    return msgspec.structs.replace(definition.names, singular=definition.kind.lower())


def _storage(storage: Storage, release: Release) -> Storage:
    versions = [
        one for since, one in storage.announced_since.items() if exists_in(release.version, since, "")
    ]
    return msgspec.structs.replace(storage, announced_version=versions[-1]) if versions else storage


def _subresource(one: Subresource, drop: Drop | None, release: Release, rules: Rules) -> Subresource:
    return msgspec.structs.replace(
        one,
        view=one.view and _in_release(one.view, release, rules),
        options=one.options and _in_release(one.options, release, rules),
        prepare=_dropping_on_update(drop, one.prepare),
    )


def _strategy(strategy: Strategy, drop: Drop | None) -> Strategy:
    """Return the strategy with a first step that drops fields of gates that are off."""
    if drop is None:
        return strategy
    prepare = strategy.prepare_for_create

    def prepare_for_create(new: Object) -> None:
        drop(new, None)
        if prepare is not None:
            prepare(new)

    on_update = _dropping_on_update(drop, strategy.prepare_for_update)
    return msgspec.structs.replace(
        strategy, prepare_for_create=prepare_for_create, prepare_for_update=on_update
    )


def _dropping_on_update(drop: Drop | None, prepare: PrepareForUpdate | None) -> PrepareForUpdate | None:
    if drop is None:
        return prepare

    def prepare_for_update(new: Object, old: Object) -> None:
        drop(new, old)
        if prepare is not None:
            prepare(new, old)

    return prepare_for_update
