"""The policy group: PodDisruptionBudget (v1) and PodSecurityPolicy (v1beta1, deprecated)."""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.policy import pod_disruption_budget, pod_security_policy
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return pod_disruption_budget.define(names), pod_security_policy.define(names, features)
