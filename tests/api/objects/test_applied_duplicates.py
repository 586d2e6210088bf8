"""An apply that repeats an item of a set or a key of a keyed list is refused, and the error names the list."""

from __future__ import annotations

from typing import Any

from tests.cases import checking
from tests.gateway.shared_server import shared

APPLY = {"content-type": "application/apply-patch+yaml"}
TYPES = {
    "configmaps": ("v1", "ConfigMap"),
    "endpointslices": ("discovery.cluster.io/v1", "EndpointSlice"),
    "flowschemas": ("flowcontrol.apiserver.cluster.io/v1beta2", "FlowSchema"),
    "statefulsets": ("apps/v1", "StatefulSet"),
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}
SUBJECT = {"kind": "User", "user": {"name": "u"}}
RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"]}
CLAIM = {"metadata": {"name": "data", "finalizers": ["a.b/c", "a.b/c"]}}


def slice_of(*addresses: str) -> dict[str, Any]:
    return {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": addresses}]}


def schema_of(**rule: Any) -> dict[str, Any]:
    return {"spec": {"rules": [{"subjects": [SUBJECT], "resourceRules": [{**RESOURCES, **rule}]}]}}


async def test_repeated_items_are_refused() -> None:
    async with shared() as api:
        with checking() as case:
            for type_, sent, named in (
                # Granular lists: their items have owners.
                (
                    "configmaps",
                    {"metadata": {"finalizers": ["a.b/c", "a.b/c"]}},
                    '.metadata.finalizers: duplicate entries for key [="a.b/c"]',
                ),
                (
                    "configmaps",
                    {"metadata": {"ownerReferences": [OWNER, OWNER]}},
                    '.metadata.ownerReferences: duplicate entries for key [uid="u"]',
                ),
                # Inside lists that are atomic.
                (
                    "endpointslices",
                    slice_of("10.0.0.2", "10.0.0.2"),
                    '.endpoints[1].addresses: duplicate entries for key [="10.0.0.2"]',
                ),
                (
                    "flowschemas",
                    schema_of(verbs=["get", "list", "get"]),
                    '.spec.rules[0].resourceRules[0].verbs: duplicate entries for key [="get"]',
                ),
                (
                    "statefulsets",
                    {"spec": {"volumeClaimTemplates": [CLAIM]}},
                    '.spec.volumeClaimTemplates[0].metadata.finalizers: duplicate entries for key [="a.b/c"]',
                ),
            ):
                with case(named):
                    version, kind = TYPES[type_]
                    config = {"apiVersion": version, "kind": kind, **sent}
                    config["metadata"] = {"name": "a", **sent.get("metadata", {})}
                    path = api.path(type_, name="a")
                    response = await api.ask(
                        "PATCH", path, config, headers=APPLY, fieldManager="m", dryRun="All"
                    )
                    refused = f"the applied object cannot be merged: {named}"
                    assert response.expect(400)["message"] == refused


async def test_equal_items_of_atomic_lists_are_accepted() -> None:
    """An atomic list may have equal items."""
    async with shared() as api:
        slice_ = {
            "apiVersion": "discovery.cluster.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "a"},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.1"]}],
        }
        path = api.path("endpointslices", name="a")
        (await api.ask("PATCH", path, slice_, headers=APPLY, fieldManager="m", dryRun="All")).expect(201)
