"""The networking group: how requests come into the cluster, and who may talk to whom inside it."""

from __future__ import annotations

from actors.kinds.definition import Definition
from actors.kinds.networking import ingress, ingress_class, network_policy
from actors.names import Names

_KINDS = (ingress_class, ingress, network_policy)


def declare(names: Names) -> tuple[Definition, ...]:
    return tuple(kind.define(names) for kind in _KINDS)
