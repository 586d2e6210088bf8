"""Errors that show the same value format it once: counts what formats values, in both wordings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from rewound.actors.golang import format as formatting
from rewound.actors.kinds.core import node, resource_quota, security_context, service
from rewound.actors.kinds.declaration import meta
from rewound.actors.kinds.schema import internal
from rewound.actors.kinds.validation import MOST, collect_with
from rewound.actors.versions.features import JSON_IN_TEXTS
from tests.cases import cases

MANY = 2 * MOST
# Calls of an error that shows a value which is formatted already.
CALLS = 12
FILES = {str(Path(str(module.__file__))) for module in (formatting, internal)}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
CONTEXT = {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"] * MANY}}
SELECTOR = {"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}] * MANY}


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions of the modules that format values are called."""
    count = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename in FILES

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@cases(
    "rule, arguments",
    [
        (meta._owner_rules, [[OWNER] * MANY]),
        (security_context._escalation_rules, [CONTEXT, "f"]),
        (node._pod_cidr_rules, [["x"] * MANY]),
        (
            service._list_update_rules,
            [{"clusterIPs": ["1.1.1.1"] * MANY}, {"clusterIPs": ["2.2.2.2"] * MANY}],
        ),
        (
            service._family_update_rules,
            [{"ipFamilies": ["IPv4"] * MANY, "clusterIPs": ["1.1.1.1"]}, {"ipFamilies": ["IPv6"] * MANY}],
        ),
        (resource_quota._scope_rules, [["x"] * MANY, []]),
        (resource_quota._scope_selector_rules, [SELECTOR, [], ["requests.cpu"]]),
    ],
)
def test_value_of_many_errors_is_formatted_once(rule: Callable[..., None], arguments: list[Any]) -> None:
    for features in (frozenset[str](), frozenset({JSON_IN_TEXTS})):
        found: list[Any] = []
        calls = calls_of(
            lambda features=features, found=found: found.extend(collect_with(features, rule, *arguments))
        )
        assert len(found) == MOST + 1
        assert calls < CALLS * MOST, f"{calls} calls"
