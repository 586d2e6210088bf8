"""The rules of an aggregated ClusterRole: those of all cluster roles that its selectors select, each rule once."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from actors.kinds.declaration.meta import label_selector_matches
from actors.messages import Object


def selects(role: Object, labels: dict[str, str]) -> bool:
    """Whether an aggregated role takes the rules of a role with these labels."""
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    return any(label_selector_matches(selector, labels) for selector in selectors)


def aggregated_rules(role: Object, others: Iterable[Object]) -> list[Object]:
    """`others` in the order of their names; `role` itself may be among them."""
    candidates = [one for one in others if one["metadata"]["name"] != role["metadata"]["name"]]
    found: dict[bytes, Object] = {}
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for one in candidates:
            if label_selector_matches(selector, one["metadata"].get("labels") or {}):
                for rule in one.get("rules") or ():
                    found.setdefault(orjson.dumps(rule, option=orjson.OPT_SORT_KEYS), rule)
    return list(found.values())
