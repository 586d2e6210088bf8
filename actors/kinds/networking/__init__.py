"""The networking group: Ingress and IngressClass for HTTP from outside, NetworkPolicy for traffic of pods."""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.networking import ingress, ingress_class, network_policy
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return ingress_class.define(names), ingress.define(names), network_policy.define(names, features)
