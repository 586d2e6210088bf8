"""Finalizers without a domain: most kinds accept only the standard ones; some accept any."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

HOOKS = "webhookconfigurations"
NAMED = {"metadata": {"name": "a", "finalizers": ["plain"]}}
API_SERVICE = {
    "metadata": {"name": "v1.example.com", "finalizers": ["plain"]},
    "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
}


@cases(
    ("plural", "document", "accepted"),
    [
        (f"mutating{HOOKS}", NAMED, True),
        (f"validating{HOOKS}", NAMED, True),
        ("runtimeclasses", {**NAMED, "handler": "h"}, True),
        ("apiservices", API_SERVICE, True),
        ("leases", NAMED, True),
        ("poddisruptionbudgets", NAMED, True),
        ("priorityclasses", {**NAMED, "value": 1}, False),
        ("roles", NAMED, False),
    ],
)
def test_which_kinds_accept_unqualified_finalizers(
    kinds: Definitions, plural: str, document: Any, accepted: bool
) -> None:
    expected = set() if accepted else {"metadata.finalizers[0]"}
    assert {field for field, _ in kinds.create_causes(plural, document)} == expected
    assert {field for field, _ in kinds.update(plural, document, document)[1]} == expected
