"""The coordination group: Lease, with which programs elect a leader and nodes send heartbeats; LeaseCandidate, a
program that asks to become the leader.

The LeaseCandidate of 1.31 (v1alpha1) has several strategies, and no conversion: it is a type of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    Storage,
    Strategy,
    Table,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_update_rules
from rewound.actors.kinds.schema.fields import INT32, MICRO_TIME, STRING, STRINGS, Before, Field, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    config_key,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

SPEC = Struct(
    "coordination.v1.LeaseSpec",
    Field("holderIdentity", STRING, 1, pointer=True),
    Field("leaseDurationSeconds", INT32, 2, pointer=True),
    Field("acquireTime", MICRO_TIME, 3, pointer=True),
    Field("renewTime", MICRO_TIME, 4, pointer=True),
    Field("leaseTransitions", INT32, 5, pointer=True),
    Field("preferredHolder", STRING, 7, pointer=True, since="1.31", gate="CoordinatedLeaderElection"),
    Field("strategy", STRING, 6, pointer=True, since="1.31", gate="CoordinatedLeaderElection"),
)
LEASE = Struct("coordination.v1.Lease", METADATA, Field("spec", SPEC, 2))


def declare(names: Names) -> tuple[Definition, ...]:
    lease = Definition(
        group=names.group("coordination"),
        version="v1",
        kind="Lease",
        plural="leases",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=LEASE,
        deletion=Deletion(only_known_finalizers=False),
        table=Table(
            (NAME, Column("Holder", "string", "Identity of the holder.", at("spec", "holderIdentity")), AGE)
        ),
        strategy=Strategy(
            allow_create_on_update=True,
            allow_unconditional_update=False,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
    return (lease, *_candidates(names))


def rules(errors: FieldErrors, new: Object) -> None:
    duration, transitions = new["spec"].get("leaseDurationSeconds"), new["spec"].get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.add(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.add(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = new["spec"].get("strategy")
    if strategy is not None:
        _strategy_rules(errors, strategy, "spec.strategy")
    if new["spec"].get("preferredHolder") and not strategy:
        text = "may only be specified if `strategy` is defined"
        errors.add(forbidden("spec.preferredHolder", text))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    rules(errors, new)


OLDEST: Final = "OldestEmulationVersion"
_NUMBER, _PRERELEASE = r"(?:0|[1-9]\d*)", r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_parse_version = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch


def _candidate(version: str, *last: Field) -> Struct:
    of = f"coordination.{version}.LeaseCandidate"
    is_first = version == "v1alpha1"
    spec = Struct(
        f"{of}Spec",
        Field("leaseName", STRING, 1, required=True, always=True),
        Field("pingTime", MICRO_TIME, 2, pointer=True),
        Field("renewTime", MICRO_TIME, 3, pointer=True),
        Field("binaryVersion", STRING, 4, required=not is_first, always=not is_first),
        Field("emulationVersion", STRING, 5),
        *last,
    )
    before = () if is_first else (Before("1.36", required=False),)
    return Struct(of, METADATA, Field("spec", spec, 2, required=not is_first, before=before))


_STRATEGY: Final = Field("strategy", STRING, 6, required=True)
CANDIDATE_V1BETA1 = _candidate("v1beta1", _STRATEGY)
CANDIDATE_V1ALPHA2 = _candidate("v1alpha2", _STRATEGY)
CANDIDATE_V1ALPHA1 = _candidate(
    "v1alpha1", Field("preferredStrategies", STRINGS, 6, required=True, list_type="atomic")
)


def _candidates(names: Names) -> tuple[Definition, ...]:
    group = names.group("coordination")
    candidate = Definition(
        group=group,
        version="v1beta1",
        kind="LeaseCandidate",
        plural="leasecandidates",
        namespaced=True,
        check_name=lambda name, _: config_key(name),
        fields=CANDIDATE_V1BETA1,
        deletion=Deletion(only_known_finalizers=False),
        table=Table(
            (
                NAME,
                Column("LeaseName", "string", "The lease that it wants.", at("spec", "leaseName")),
                Column("BinaryVersion", "string", "Version of the program.", at("spec", "binaryVersion")),
                Column(
                    "EmulationVersion", "string", "Version that it emulates.", at("spec", "emulationVersion")
                ),
                AGE,
            )
        ),
        strategy=_candidate_strategy(_candidate_rules),
        since="1.33",
        on_by_default=False,
    )
    older = replace(
        candidate,
        version="v1alpha2",
        fields=CANDIDATE_V1ALPHA2,
        storage=Storage(
            stored_as=candidate.type_name, conversion=Conversion(to_storage=dict, from_storage=dict)
        ),
        since="1.32",
    )
    oldest = replace(
        candidate,
        version="v1alpha1",
        fields=CANDIDATE_V1ALPHA1,
        storage=Storage(type_name=f"leasecandidates.v1alpha1.{group}", error_group=group),
        strategy=_candidate_strategy(_oldest_candidate_rules),
        since="1.31",
        until="1.31",
    )
    return candidate, older, oldest


def _candidate_strategy(rules: Callable[[FieldErrors, Object], None]) -> Strategy:
    return Strategy(
        allow_create_on_update=True,
        allow_unconditional_update=False,
        validate_create=rules,
        validate_update=partial(_candidate_update_rules, rules),
    )


def _candidate_update_rules(
    rules: Callable[[FieldErrors, Object], None], errors: FieldErrors, new: Object, old: Object
) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    rules(errors, new)
    unchanged(errors, "spec.leaseName", new["spec"]["leaseName"], old["spec"]["leaseName"])


def _strategy_rules(errors: FieldErrors, strategy: str, field: str) -> None:
    if "/" in strategy:
        errors.add_each(f"{field}.strategy", strategy, qualified_name(strategy))
    elif strategy != OLDEST:
        errors.add(not_supported(f"{field}.strategy", strategy, (OLDEST,)))


def _candidate_rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    emulated = _version_rules(errors, spec, needs_binary=True)
    strategy = spec.get("strategy", "")
    if not strategy:
        errors.add(required("spec.strategy"))
        return
    if strategy == OLDEST and emulated is None:
        text = f"must be specified when `strategy` is '{OLDEST}'"
        errors.add(required("spec.emulationVersion", text))
    _strategy_rules(errors, strategy, "spec.strategy")


def _oldest_candidate_rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    emulated = _version_rules(errors, spec, needs_binary=False)
    for index, strategy in enumerate(spec.get("preferredStrategies", ())):
        text = f"must be specified when `strategy` is '{OLDEST}'"
        if strategy == OLDEST and not spec.get("binaryVersion"):
            errors.add(required("spec.binaryVersion", text))
        if strategy == OLDEST and emulated is None:
            errors.add(required("spec.emulationVersion", text))
        _strategy_rules(errors, strategy, f"spec.preferredStrategies[{index}]")


def _version_rules(errors: FieldErrors, spec: Object, *, needs_binary: bool) -> tuple[object, ...] | None:
    """Validate the versions, and return the one that is emulated, in an order that compares; None: there is none."""
    emulation, binary = spec.get("emulationVersion", ""), spec.get("binaryVersion", "")
    if not spec["leaseName"]:
        errors.add(required("spec.leaseName"))
    order = {}
    for name, value in (("emulationVersion", emulation), ("binaryVersion", binary)):
        order[name] = _ordered(value)
        if value and order[name] is None:
            errors.add(invalid(f"spec.{name}", value, "must be a valid semantic version"))
        elif not value and name == "binaryVersion" and needs_binary:
            errors.add(required("spec.binaryVersion"))
    zero = (0, 0, 0, 1)
    emulated = order["emulationVersion"]
    if binary and emulation and (order["binaryVersion"] or zero) < (emulated or zero):
        text = "must be greater than or equal to `emulationVersion`"
        errors.add(invalid("spec.binaryVersion", binary, text))
    return None if emulated == zero else emulated


def _ordered(version: str) -> tuple[object, ...] | None:
    match = _parse_version(version)
    if match is None:
        return None
    release = tuple(int(part) for part in match.groups()[:3])
    if match[4] is None:
        return (*release, 1)
    parts = ((0, int(part)) if part.isdecimal() else (1, part) for part in match[4].split("."))
    return (*release, 0, *parts)
