"""NodeRestriction: a node writes only its own Node, Lease and CSINode, its mirror pods, and the status of its pods.

Off by default. The Node authorizer decides by kinds of writes; this plugin sees the objects and rejects those that
would give a node power over others: a pod that references secrets, a label that attracts pods, a token for another
node's pod. A node is a user system:node:<name> in the group system:nodes; other users are not affected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, NotFound, Resource
from rewound.actors.identity import node_of
from rewound.actors.kinds.core import referenced_objects
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.selectors.facts import field_bytes, unpack_uids
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
NODES: Final = Resource("", "nodes")
CLAIMS: Final = Resource("", "persistentvolumeclaims")
ACCOUNTS: Final = Resource("", "serviceaccounts")

# What a node may change in the status of a claim; the last two belong to an alpha feature.
_CLAIM_STATUS: Final = frozenset({"capacity", "conditions"})
_CLAIM_STATUS_OF_RECOVERY: Final = _CLAIM_STATUS | {"resizeStatus", "allocatedResources"}
_CLAIM_METADATA: Final = frozenset({"resourceVersion", "managedFields"})

Check = Callable[[str, AdmissionRequest], None]


class NodeRestriction(Plugin):
    name = "NodeRestriction"
    thread_safe = True

    def __init__(self, names: Names, journal: Journal, *, expansion_recovery: bool = False) -> None:
        self._journal = journal
        self._pods = journal.type_id("pods")
        self._nodes = journal.type_id("nodes")
        self._mirror = names.key("config.mirror")
        self._lease_namespace = names.node_lease_namespace
        self._labels = NodeLabels(names)
        self._claim_status = _CLAIM_STATUS_OF_RECOVERY if expansion_recovery else _CLAIM_STATUS
        self._checks: Mapping[Resource, Check] = {
            PODS: self._check_pod,
            NODES: self._check_node,
            CLAIMS: self._check_claim,
            ACCOUNTS: self._check_token,
            Resource(names.group("coordination"), "leases"): self._check_lease,
            Resource(names.group("storage"), "csinodes"): self._check_csi_node,
        }
        self.mutates = (rule(CREATE, UPDATE, DELETE, of=self._checks, subresources=None),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        """Rejects here, not in `validate`, because its errors precede those of the object."""
        caller = request.context.caller if request.context is not None else None
        node = None if caller is None else node_of(caller)
        if node is not None:
            if not node:
                raise _refused(request, f"could not determine node from user {_quoted(request.user)}")
            self._checks[request.definition.resource](node, request)
        return None

    def _check_pod(self, node: str, request: AdmissionRequest) -> None:
        if request.subresource == "status":
            _check_pod_status(node, request)
        elif request.subresource == "eviction":
            self._check_eviction(node, request)
        elif request.subresource:
            what = f"unexpected pod subresource {_quoted(request.subresource)}"
            raise _refused(request, f"{what}, only 'status' and 'eviction' are allowed")
        elif request.operation == CREATE:
            self._check_new_pod(node, request)
        elif request.operation == UPDATE:
            what = f'unexpected operation "{UPDATE}", node {_quoted(node)}'
            raise _refused(request, f"{what} can only create and delete mirror pods")
        elif _node_of_pod(request.old) != node:
            why = f"node {_quoted(node)} can only delete pods with spec.nodeName set to itself"
            raise _refused(request, why)

    def _check_new_pod(self, node: str, request: AdmissionRequest) -> None:
        pod, who = request.object, f"node {_quoted(node)}"
        assert pod is not None
        if self._mirror not in pod["metadata"].get("annotations", ()):
            why = f'pod does not have "{self._mirror}" annotation, {who} can only create mirror pods'
            raise _refused(request, why)
        if _node_of_pod(pod) != node:
            raise _refused(request, f"{who} can only create pods with spec.nodeName set to itself")
        self._check_owner(node, request, pod["metadata"].get("ownerReferences") or [])
        if what := _referenced(pod["spec"]):
            raise _refused(request, f"{who} can not create pods that reference {what}")

    def _check_owner(self, node: str, request: AdmissionRequest, owners: list[Object]) -> None:
        who = f"node {_quoted(node)}"
        if len(owners) > 1:
            raise _refused(request, f"{who} can only create pods with a single owner reference set to itself")
        if not owners or not _names_node(owners[0], node):
            raise _refused(request, f"{who} can only create pods with an owner reference set to itself")
        owner = owners[0]
        if not owner.get("controller"):
            why = f"{who} can only create pods with a controller owner reference set to itself"
            raise _refused(request, why)
        if owner.get("blockOwnerDeletion"):
            raise _refused(request, f"{who} must not set blockOwnerDeletion on an owner reference")
        uid = unpack_uids(self._facts(self._nodes, NODES, "", node))[0]
        if owner.get("uid") != uid:
            raise _refused(request, f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}")

    def _check_eviction(self, node: str, request: AdmissionRequest) -> None:
        if request.operation != CREATE:
            raise _refused(request, f"unexpected operation {request.operation}")
        if not _is_bound(self._facts(self._pods, PODS, request.namespace, request.name), node):
            raise _refused(request, f"node {node} can only evict pods with spec.nodeName set to itself")

    def _facts(self, type_id: int, resource: Resource, namespace: str, name: str) -> bytes:
        """The facts of a stored object, which may be too large to parse here."""
        with self._journal.read() as view:
            row = view.get(type_id, namespace, name)
        if row is None:
            raise NotFound(resource, name)
        return row.facts

    def _check_node(self, node: str, request: AdmissionRequest) -> None:
        who = f"node {_quoted(node)}"
        if request.name != node:
            raise _refused(request, f"{who} is not allowed to modify node {_quoted(request.name)}")
        new, old = request.object, request.old
        if request.operation == CREATE and new is not None:
            if new["spec"].get("configSource") is not None:
                raise _refused(request, f"{who} is not allowed to create pods with a non-nil configSource")
            if labels := self._labels.forbidden(new["metadata"].get("labels"), None):
                raise _refused(request, f"{who} is not allowed to set the following labels: {labels}")
        elif request.operation == UPDATE and new is not None and old is not None:
            source = new["spec"].get("configSource")
            if source is not None and source != old["spec"].get("configSource"):
                why = f"{who} is not allowed to update configSource to a new non-nil configSource"
                raise _refused(request, why)
            if (new["spec"].get("taints") or []) != (old["spec"].get("taints") or []):
                raise _refused(request, f"{who} is not allowed to modify taints")
            if labels := self._labels.forbidden(new["metadata"].get("labels"), old["metadata"].get("labels")):
                raise _refused(request, f"is not allowed to modify labels: {labels}")

    def _check_claim(self, node: str, request: AdmissionRequest) -> None:
        if request.subresource != "status":
            raise _refused(request, "may only update PVC status")
        new, old = request.object, request.old
        assert new is not None and old is not None
        fields = sorted(self._changed_fields(new, old))
        if fields:
            why = "is not allowed to update fields other than status.capacity and status.conditions"
            raise _refused(request, f"node {_quoted(node)} {why}: {', '.join(fields)}")

    def _changed_fields(self, new: Object, old: Object) -> set[str]:
        exempt = {"metadata": _CLAIM_METADATA, "status": self._claim_status}
        return {
            f"{part}.{field}"
            for part in ("metadata", "spec", "status")
            for field in {**new.get(part, {}), **old.get(part, {})}
            if field not in exempt.get(part, ())
            and (new.get(part, {}).get(field) or None) != (old.get(part, {}).get(field) or None)
        }

    def _check_token(self, node: str, request: AdmissionRequest) -> None:
        """A node gets tokens of accounts only for its own pods, and only tokens bound to such a pod."""
        if request.operation != CREATE or request.subresource != "token":
            return
        assert request.object is not None
        bound: Mapping[str, Any] = request.object.get("spec", {}).get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            raise _refused(request, "node requested token not bound to a pod")
        uid = bound.get("uid")
        if not uid:
            raise _refused(request, "node requested token with a pod binding without a uid")
        pod = self._facts(self._pods, PODS, request.namespace, bound["name"])
        if uid != unpack_uids(pod)[0]:
            what = f"the UID in the bound object reference ({uid}) does not match the UID in record"
            raise _refused(request, f"{what}. The object might have been deleted and then recreated")
        if not _is_bound(pod, node):
            raise _refused(request, "node requested token bound to a pod scheduled on a different node")

    def _check_lease(self, node: str, request: AdmissionRequest) -> None:
        if request.namespace != self._lease_namespace:
            why = f'can only access leases in the "{self._lease_namespace}" system namespace'
            raise _refused(request, why)
        if request.name != node:
            why = "can only access node lease with the same name as the requesting node"
            raise _refused(request, why)

    def _check_csi_node(self, node: str, request: AdmissionRequest) -> None:
        if request.name != node:
            raise _refused(request, "can only access CSINode with the same name as the requesting node")


def _check_pod_status(node: str, request: AdmissionRequest) -> None:
    if request.operation != UPDATE or request.old is None or request.object is None:
        raise _refused(request, f'unexpected operation "{request.operation}"')
    who = f"node {_quoted(node)}"
    if _node_of_pod(request.old) != node:
        why = f"{who} can only update pod status for pods with spec.nodeName set to itself"
        raise _refused(request, why)
    if _labels_of(request.old) != _labels_of(request.object):
        raise _refused(request, f"{who} cannot update labels through pod status")


def _referenced(spec: Object) -> str:
    """What a mirror pod refers to and may not; "" if it refers to nothing."""
    if spec.get("serviceAccountName"):
        return "a service account"
    if next(referenced_objects.secrets_of_pod(spec), None) is not None:
        return "secrets"
    if next(referenced_objects.config_maps_of_pod(spec), None) is not None:
        return "configmaps"
    if next(referenced_objects.claims_of_pod(spec), None) is not None:
        return "persistentvolumeclaims"
    return ""


def _names_node(owner: Object, node: str) -> bool:
    return (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == ("v1", "Node", node)


def _node_of_pod(pod: Object | None) -> str | None:
    return None if pod is None else pod["spec"].get("nodeName")


def _is_bound(facts: bytes, node: str) -> bool:
    return field_bytes("spec.nodeName", node) in facts


def _labels_of(stored: Object) -> Object:
    return stored["metadata"].get("labels") or {}


def _refused(request: AdmissionRequest, why: str) -> Forbidden:
    return Forbidden(request.definition.resource, request.name, why)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


Labels = Mapping[str, str] | None


class NodeLabels:
    """Labels of its own Node that a node may not change: schedulers and operators choose nodes by them."""

    def __init__(self, names: Names) -> None:
        self._domains = tuple(dict.fromkeys((names.key_domain, names.group_domain)))
        self._restricted = f"node-restriction.{names.key_domain}"
        self._open_domains = (f"kubelet.{names.key_domain}", f"node.{names.key_domain}")
        self._open = frozenset(
            names.key(name, prefix)
            for prefix, keys in (
                ("", ("hostname", "os", "arch")),
                ("beta", ("os", "arch", "instance-type")),
                ("node", ("instance-type",)),
                ("topology", ("zone", "region")),
                ("failure-domain.beta", ("zone", "region")),
            )
            for name in keys
        )

    def forbidden(self, new: Labels, old: Labels) -> str:
        """The changed labels that a node may not change, sorted, as errors list them."""
        now, before = new or {}, old or {}
        changed = {key for key in {*now, *before} if now.get(key) != before.get(key)}
        return ", ".join(sorted(key for key in changed if self._is_forbidden(key)))

    def _is_forbidden(self, key: str) -> bool:
        domain, slash, _ = key.partition("/")
        if not slash:
            return False
        if _within(domain, (self._restricted,)):
            return True
        return _within(domain, self._domains) and not (
            key in self._open or _within(domain, self._open_domains)
        )


def _within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
