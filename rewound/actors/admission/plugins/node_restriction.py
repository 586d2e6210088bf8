"""NodeRestriction: a node writes only its own Node, Lease and CSINode, its mirror pods, and the status of its pods, and
requests tokens and certificates only for itself and its pods.

Off by default. The Node authorizer decides by kinds of writes; this plugin sees the objects and rejects those that
would give a node power over others: a pod that references secrets, a label that attracts pods, a token for another
node's pod. A node is a user system:node:<name> in the group system:nodes; other users are not affected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.certificates.signing import UnfitRequest, facts_of
from rewound.actors.errors import AdmissionFailed, Forbidden, NotFound, Resource
from rewound.actors.identity import User, node_of
from rewound.actors.kinds.core import referenced_objects
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import imported
from rewound.actors.selectors.facts import field_bytes, unpack_uids
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    ANY_NODE_REQUESTS,
    MIRROR_BUNDLES,
    MIRROR_CLAIMS,
    MIRROR_VOLUMES,
    NODE_AUDIENCES,
    NODE_CLAIM_STATUSES,
    NODE_EXTENDED_CLAIMS,
    NODE_OWNERS,
    NODE_POD_CERTIFICATES,
    NODE_QUANTITY_TEXT,
    NODE_REQUESTS,
    NODE_SLICES,
    POD_CERTIFICATES,
    RECOVER_EXPANSION,
)
from rewound.journal.log import Journal
from rewound.journal.records import Row

PODS: Final = Resource("", "pods")
NODES: Final = Resource("", "nodes")
CLAIMS: Final = Resource("", "persistentvolumeclaims")
ACCOUNTS: Final = Resource("", "serviceaccounts")

# What a node may change in the status of a claim; the others belong to a feature.
_CLAIM_STATUS: Final = frozenset({"capacity", "conditions"})
_CLAIM_STATUS_OF_RECOVERY: Final = _CLAIM_STATUS | {
    "resizeStatus",
    "allocatedResourceStatuses",
    "allocatedResources",
}
_CLAIM_METADATA: Final = frozenset({"resourceVersion", "managedFields"})

Check = Callable[[str, AdmissionRequest], None]


class NodeRestriction(Plugin):
    name = "NodeRestriction"
    thread_safe = True

    def __init__(self, names: Names, journal: Journal, features: frozenset[str] = frozenset()) -> None:
        self._journal = journal
        self._features = features
        self._pods = journal.type_id("pods")
        self._nodes = journal.type_id("nodes")
        self._mirror = names.key("config.mirror")
        self._lease_namespace = names.node_lease_namespace
        self._labels = NodeLabels(names)
        self._accounts = journal.type_id("serviceaccounts")
        self._claim_status = _CLAIM_STATUS_OF_RECOVERY if RECOVER_EXPANSION in features else _CLAIM_STATUS
        self._checks: dict[Resource, Check] = {
            PODS: self._check_pod,
            NODES: self._check_node,
            CLAIMS: self._check_claim,
            ACCOUNTS: self._check_token,
            Resource(names.group("coordination"), "leases"): self._check_lease,
            Resource(names.group("storage"), "csinodes"): self._check_csi_node,
        }
        if NODE_SLICES in features:
            self._checks[Resource(names.group("resource"), "resourceslices")] = self._check_slice
        if NODE_POD_CERTIFICATES in features:
            requests = Resource(names.group("certificates"), "podcertificaterequests")
            self._checks[requests] = self._check_pod_certificate
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
            self._check_pod_status(node, request)
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
        if what := _referenced(pod["spec"], self._features):
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
            if NODE_OWNERS in self._features and _owners_of(new) != _owners_of(old):
                raise _refused(request, f"{who} is not allowed to modify ownerReferences")
            if labels := self._labels.forbidden(new["metadata"].get("labels"), old["metadata"].get("labels")):
                raise _refused(request, f"is not allowed to modify labels: {labels}")

    def _check_claim(self, node: str, request: AdmissionRequest) -> None:
        if request.subresource != "status":
            raise _refused(request, "may only update PVC status")
        new, old = request.object, request.old
        assert new is not None and old is not None
        fields = sorted(self._changed_fields(new, old))
        if fields:
            amount = "quantity" if NODE_QUANTITY_TEXT in self._features else "capacity"
            why = f"is not allowed to update fields other than status.{amount} and status.conditions"
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

    def _check_pod_status(self, node: str, request: AdmissionRequest) -> None:
        if request.operation != UPDATE or request.old is None or request.object is None:
            raise _refused(request, f'unexpected operation "{request.operation}"')
        who = f"node {_quoted(node)}"
        if _node_of_pod(request.old) != node:
            why = f"{who} can only update pod status for pods with spec.nodeName set to itself"
            raise _refused(request, why)
        if _labels_of(request.old) != _labels_of(request.object):
            raise _refused(request, f"{who} cannot update labels through pod status")
        for feature, part, what in (
            (NODE_CLAIM_STATUSES, "resourceClaimStatuses", "resource claim statues"),
            (NODE_EXTENDED_CLAIMS, "extendedResourceClaimStatus", "extended resource claim status"),
        ):
            new, old = (one["status"].get(part) or None for one in (request.object, request.old))
            if feature in self._features and new != old:
                raise _refused(request, f"{who} cannot update {what}")

    def _check_slice(self, node: str, request: AdmissionRequest) -> None:
        """The Node authorizer checks other writes: a create and each object of a collection it does not see."""
        found = {CREATE: request.object, DELETE: request.old}.get(request.operation)
        if found is not None and found["spec"].get("nodeName") != node:
            verb = request.operation.lower()
            why = f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
            raise _refused(request, why)

    def _check_pod_certificate(self, node: str, request: AdmissionRequest) -> None:
        """A node requests certificates only for its own pods, as they are now."""
        if POD_CERTIFICATES not in self._features:
            raise _refused(request, "PodCertificateRequest feature gate is disabled")
        if request.operation != CREATE:
            raise _refused(request, f"unexpected operation {request.operation}")
        if request.subresource:
            raise _refused(request, f"unexpected subresource {request.subresource}")
        assert request.object is not None
        spec, namespace = request.object["spec"], request.namespace
        pod = _quoted(f"{namespace}/{spec['podName']}")
        if spec["nodeName"] != node:
            why = f"PodCertificateRequest.Spec.NodeName={_quoted(spec['nodeName'])}, which is not the requesting node"
            raise _refused(request, f"{why} {_quoted(node)}")
        uid = unpack_uids(self._named("node", self._nodes, "", node).facts)[0]
        if uid != spec["nodeUID"]:
            why = f"names node UID {_quoted(spec['nodeUID'])}, inconsistent with the running node ({_quoted(uid)})"
            raise AdmissionFailed(f"PodCertificateRequest for pod {pod} {why}")
        row = self._named("pod", self._pods, namespace, spec["podName"])
        uid = unpack_uids(row.facts)[0]
        if uid != spec["podUID"]:
            why = (
                f"contains pod UID ({_quoted(spec['podUID'])}) which differs from running pod {_quoted(uid)}"
            )
            raise AdmissionFailed(f"PodCertificateRequest for pod {pod} {why}")
        self._check_certified_pod(pod, decode(row.body), request)
        account = self._named("service account", self._accounts, namespace, spec["serviceAccountName"])
        uid = unpack_uids(account.facts)[0]
        if uid != spec["serviceAccountUID"]:
            why = f"names service account UID {_quoted(spec['serviceAccountUID'])}, which differs from the running"
            raise AdmissionFailed(
                f"PodCertificateRequest for pod {pod} {why} service account ({_quoted(uid)})"
            )

    def _check_certified_pod(self, shown: str, pod: Object, request: AdmissionRequest) -> None:
        assert request.object is not None
        spec, account = request.object["spec"], pod["spec"].get("serviceAccountName", "")
        if _node_of_pod(pod) != spec["nodeName"]:
            why = f"is not running on node {_quoted(spec['nodeName'])} named in the PodCertificateRequest"
            raise _refused(request, f"pod {shown} {why}")
        if self._mirror in pod["metadata"].get("annotations", ()):
            raise _refused(request, f"pod {shown} is a mirror pod")
        if spec["serviceAccountName"] != account:
            why = f"contains serviceAccountName ({_quoted(spec['serviceAccountName'])}) that differs from running pod"
            raise _refused(request, f"PodCertificateRequest for pod {shown} {why} ({_quoted(account)})")

    def _named(self, what: str, type_id: int, namespace: str, name: str) -> Row:
        """The stored object that a PodCertificateRequest names. Raises AdmissionFailed: it may exist soon."""
        with self._journal.read() as view:
            row = view.get(type_id, namespace, name)
        if row is None:
            shown, plain = f"{namespace}/{name}" if namespace else name, what.replace(" ", "")
            why = f"while retrieving {what} {_quoted(shown)} named in the PodCertificateRequest"
            raise AdmissionFailed(f"{why}: {plain} {_quoted(name)} not found")
        return row


def _referenced(spec: Object, features: frozenset[str]) -> str:
    """What a mirror pod refers to and may not; "" if it refers to nothing."""
    by_volumes = MIRROR_VOLUMES in features
    if spec.get("serviceAccountName"):
        return "serviceaccounts" if by_volumes else "a service account"
    if next(referenced_objects.secrets_of_pod(spec), None) is not None:
        return "secrets"
    if next(referenced_objects.config_maps_of_pod(spec), None) is not None:
        return "configmaps"
    if by_volumes:
        return "resourceclaims" if spec.get("resourceClaims") else _referenced_by_volumes(spec)
    volumes = spec.get("volumes", ())
    sources = (one for volume in volumes for one in referenced_objects.projected_sources(volume))
    if MIRROR_BUNDLES in features and any("clusterTrustBundle" in one for one in sources):
        return "clustertrustbundles"
    if next(referenced_objects.claims_of_pod(spec), None) is not None:
        return "persistentvolumeclaims"
    return "resourceclaims" if MIRROR_CLAIMS in features and spec.get("resourceClaims") else ""


# What volumes need, besides the secrets and config maps that they name.
_OF_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_OF_SOURCES: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _referenced_by_volumes(spec: Object) -> str:
    for volume in spec.get("volumes", ()):
        for parts, texts in (
            (volume, _OF_VOLUMES),
            *((one, _OF_SOURCES) for one in referenced_objects.projected_sources(volume)),
        ):
            if what := next((text for part, text in texts.items() if part in parts), ""):
                return what
    return ""


def _owners_of(stored: Object) -> list[Object]:
    return stored["metadata"].get("ownerReferences") or []


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


class NodeCredentials(AsyncPlugin):
    """The part of NodeRestriction that needs the authorizer or the library for certificates.

    A node gets tokens only for an audience of its pod's volumes, or one that it may request anyway; and it requests
    node certificates only with its own name.
    """

    name = "NodeRestriction"

    def __init__(
        self, names: Names, journal: Journal, authorizer: Authorizer, features: frozenset[str]
    ) -> None:
        self._journal, self._authorizer = journal, authorizer
        self._drivers = journal.type_id(f"csidrivers.{names.group('storage')}")
        self._driver_kind = f"csidriver.{names.group('storage')}"
        self._signers = (names.node_client_signer, names.serving_signer)
        requests = Resource(names.group("certificates"), "certificatesigningrequests")
        tokens = (
            (rule(CREATE, of=(ACCOUNTS,), subresources=("token",)),) if NODE_AUDIENCES in features else ()
        )
        own = NODE_REQUESTS in features and ANY_NODE_REQUESTS not in features
        self.mutates = (*tokens, *((rule(CREATE, of=(requests,)),) if own else ()))

    def concerns(self, request: AdmissionRequest) -> bool:
        caller = request.context.caller if request.context is not None else None
        return caller is not None and bool(node_of(caller))

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.context is not None and request.context.caller is not None
        assert request.object is not None
        if request.definition.resource == ACCOUNTS:
            await self._check_audience(request, request.context.caller)
        elif request.object["spec"]["signerName"] in self._signers:
            await imported("cryptography.x509")
            _check_common_name(request, node_of(request.context.caller) or "")
        return Admitted()

    async def _check_audience(self, request: AdmissionRequest, caller: User) -> None:
        assert request.object is not None
        spec = request.object["spec"]
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            raise _refused(request, "node may only request 0 or 1 audiences")
        audience, bound = audiences[0], spec["boundObjectRef"]
        pod = self._object("pods", request.namespace, bound["name"], "pod")
        try:
            if self._is_of_pod(pod, request.namespace, audience):
                return
        except NotFound as error:
            raise _refused(request, f"error validating audience {_quoted(audience)}: {error}") from None
        wanted = Attributes(
            *(caller, "request-serviceaccounts-token-audience", "", "v1", audience, "", request.namespace),
            request.name,
        )
        decision = self._authorizer.authorize(wanted)
        if not isinstance(decision, Decision):
            decision = await decision
        if not decision.allowed:
            why = f"audience {_quoted(audience)} not found in pod spec volume, {caller.name} is not authorized to"
            raise _refused(request, f"{why} request tokens for this audience")

    def _is_of_pod(self, pod: Object, namespace: str, audience: str) -> bool:
        """Whether a volume of the pod has tokens for the audience. Raises NotFound if an object is missing, unless
        another volume has them.
        """
        missing: NotFound | None = None
        for volume in pod["spec"].get("volumes", ()):
            for source in referenced_objects.projected_sources(volume):
                token = source.get("serviceAccountToken")
                if token is not None and token.get("audience", "") == audience:
                    return True
            try:
                if audience in self._audiences_of_driver(pod, namespace, volume):
                    return True
            except NotFound as error:
                missing = missing or error
        if missing is not None:
            raise missing
        return False

    def _audiences_of_driver(self, pod: Object, namespace: str, volume: Object) -> list[str]:
        driver = self._driver_of(pod, namespace, volume)
        if not driver:
            return []
        found = self._object(self._drivers, "", driver, self._driver_kind)
        return [one["audience"] for one in found["spec"].get("tokenRequests") or ()]

    def _driver_of(self, pod: Object, namespace: str, volume: Object) -> str:
        """The CSI driver that a volume uses; also those that took the place of other sources."""
        if "csi" in volume:
            return str(volume["csi"]["driver"])
        if "ephemeral" in volume:
            claim_name = f"{pod['metadata']['name']}-{volume['name']}"
        elif "persistentVolumeClaim" in volume:
            claim_name = volume["persistentVolumeClaim"].get("claimName", "")
        else:
            return _migrated(volume)
        claim = self._object("persistentvolumeclaims", namespace, claim_name, "persistentvolumeclaim")
        name = claim["spec"].get("volumeName", "")
        spec = self._object("persistentvolumes", "", name, "persistentvolume")["spec"]
        return str(spec["csi"]["driver"]) if "csi" in spec else _migrated(spec)

    def _object(self, type_name: str | int, namespace: str, name: str, kind: str) -> Object:
        type_id = self._journal.type_id(type_name) if isinstance(type_name, str) else type_name
        with self._journal.read() as view:
            row = view.get(type_id, namespace, name) if name else None
        if row is None:
            raise NotFound(Resource("", kind), name)
        found: Object = decode(row.body)
        return found


# The CSI drivers that took the place of sources.
_MIGRATED: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}


def _migrated(volume: Object) -> str:
    return next((driver for part, driver in _MIGRATED.items() if part in volume), "")


def _check_common_name(request: AdmissionRequest, node: str) -> None:
    assert request.object is not None
    try:
        names = facts_of(request.object["spec"]["request"]).common_names
    except UnfitRequest as error:
        raise _refused(request, f"unable to parse csr: {error}") from None
    if names[-1:] != (f"system:node:{node}",):
        raise _refused(request, f"can only create a node CSR with CN=system:node:{node}")


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
