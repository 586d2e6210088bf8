"""The policy group: budgets of disruption (v1), and what pods may ask for (v1beta1, on its way out)."""

from __future__ import annotations

from actors.kinds.definition import Definition
from actors.kinds.policy import pod_disruption_budget, pod_security_policy
from actors.names import Names

_KINDS = (pod_disruption_budget, pod_security_policy)


def declare(names: Names) -> tuple[Definition, ...]:
    return tuple(kind.define(names) for kind in _KINDS)
