"""The apps group (v1): workload controllers that keep pods running, one module per kind."""

from __future__ import annotations

from actors.kinds.apps import controller_revision, daemon_set, deployment, replica_set, stateful_set
from actors.kinds.declaration.definition import Definition
from actors.names import Names

_WORKLOADS = (daemon_set, deployment, replica_set, stateful_set)


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    workloads = (kind.define(names, features) for kind in _WORKLOADS)
    return controller_revision.define(names), *workloads
