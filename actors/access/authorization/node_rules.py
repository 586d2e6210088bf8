"""What every node may do with resources on which the Node authorizer makes no difference between nodes.

These are the rules of v1.25 for nodes; NodeRestriction limits the writes among them to the node itself and its pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.names import Names

Verbs = frozenset[str]
READ: Verbs = frozenset({"get", "list", "watch"})
CREATE: Verbs = frozenset({"create"})
UPDATE: Verbs = frozenset({"update", "patch"})


def node_rules(names: Names) -> Mapping[tuple[str, str, str], Verbs]:
    """Verbs by group, resource and subresource."""
    authorization, storage = names.group("authorization"), names.group("storage")
    return {
        (names.group("authentication"), "tokenreviews", ""): CREATE,
        (authorization, "subjectaccessreviews", ""): CREATE,
        (authorization, "localsubjectaccessreviews", ""): CREATE,
        ("", "services", ""): READ,
        ("", "nodes", ""): READ | CREATE | UPDATE,
        ("", "nodes", "status"): UPDATE,
        ("", "events", ""): CREATE | UPDATE,
        ("", "pods", ""): READ | CREATE | {"delete"},
        ("", "pods", "status"): UPDATE,
        ("", "pods", "eviction"): CREATE,
        ("", "endpoints", ""): frozenset({"get"}),
        (names.group("certificates"), "certificatesigningrequests", ""): READ | CREATE,
        (storage, "csidrivers", ""): READ,
        (names.group("node"), "runtimeclasses", ""): READ,
    }
