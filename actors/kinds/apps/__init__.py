"""The apps group (v1): workloads that keep pods running, one module a kind."""

from __future__ import annotations

from actors.kinds.apps import controller_revision, daemon_set, deployment, replica_set, stateful_set
from actors.kinds.definition import Definition
from actors.names import Names

_KINDS = (controller_revision, daemon_set, deployment, replica_set, stateful_set)


def declare(names: Names) -> tuple[Definition, ...]:
    return tuple(kind.define(names) for kind in _KINDS)
