"""The autoscaling group: one kind in three versions. Objects are stored as v2 and converted to the others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from actors.kinds.autoscaling import horizontal_pod_autoscaler, version_1
from actors.kinds.declaration.definition import Definition
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    """The definitions of all versions, the preferred one first."""
    keys = horizontal_pod_autoscaler.round_trip_keys(names)
    stored, beta = (
        replace(view, strategy=replace(view.strategy, canonicalize=partial(version_1.canonicalize, keys)))
        for view in horizontal_pod_autoscaler.define(names, features)
    )
    return stored, version_1.define(keys, stored), beta
