"""The policy group: budgets of disruption (v1), and what pods may ask for (v1beta1, on its way out)."""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.policy import pod_disruption_budget, pod_security_policy
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return pod_disruption_budget.define(names), pod_security_policy.define(names, features)
