"""`--authorization-mode=Node`: what nodes may do. A node is a user system:node:<name> in the group system:nodes.

A node reads a secret, config map, claim, volume or volume attachment only while it is related to it (`NodeGraph`). It
creates tokens of the service accounts of its pods, and writes its own lease and CSINode. The rules of all other
resources are the same for all nodes (`node_rules`). A later authorizer may still allow what this one does not: the
reasons are those of v1.25.

For users that are not nodes the authorizer has no opinion. `NodeUserRouter` saves them the call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Final

import trio

from rewound.actors.access.authorization.chain import AuthorizerChain
from rewound.actors.access.authorize import (
    ALLOWED,
    NO_OPINION,
    NO_RULES,
    Attributes,
    Decision,
    Rules,
    Verdict,
    field_requirements,
)
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import NODE_PREFIX, User, node_of
from rewound.actors.kinds.core.referenced_objects import (
    claims_of_ephemeral_volumes,
    claims_of_pod,
    config_maps_of_pod,
    secrets_of_pod,
    secrets_of_volume,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.facts import field_bytes, unpack_uids
from rewound.actors.selectors.fields import FieldRequirement
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import (
    CREDENTIAL_PROVIDER_TOKENS,
    NODE_SELECTORS,
    NODES_GET_ACCOUNTS,
    NODES_WRITE_NEW_EVENTS,
    POD_CERTIFICATES,
    TRUST_BUNDLES,
)
from rewound.journal.log import Journal
from rewound.journal.records import Event

_OWN_OBJECT_VERBS: Final = frozenset({"get", "create", "update", "patch", "delete"})
_READ_VERBS: Final = frozenset({"get", "list", "watch"})
_NOT_LISTED: Final = Rules(errors=("node authorizer does not support user rule resolution",), incomplete=True)

Rule = Callable[[str, Attributes], Decision]


class NodeAuthorizer:
    def __init__(self, names: Names, graph: NodeGraph, features: frozenset[str] = frozenset()) -> None:
        self._graph = graph
        self._lease_namespace = names.node_lease_namespace
        self._common = node_rules(names, features)
        self._has_account_rule = NODES_GET_ACCOUNTS in features
        self._gets_accounts = CREDENTIAL_PROVIDER_TOKENS in features or POD_CERTIFICATES in features
        storage = names.group("storage")
        self._by_graph: dict[tuple[str, str], Rule] = {
            ("", "secrets"): self._secret,
            ("", "configmaps"): self._config_map,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._volume,
            ("", "serviceaccounts"): self._token,
            (storage, "volumeattachments"): self._attachment,
        }
        self._by_name: dict[tuple[str, str], Rule] = {
            (names.group("coordination"), "leases"): self._lease,
            (storage, "csinodes"): self._csi_node,
        }
        self._reads_by_graph: dict[tuple[str, str], Rule] = {}
        if NODE_SELECTORS in features:
            self._reads_by_graph["", "pods"] = self._read_pod
            self._by_name["", "nodes"] = self._node
            if POD_CERTIFICATES in features:
                requests = names.group("certificates"), "podcertificaterequests"
                self._by_name[requests] = self._pod_certificate_request
                self._reads_by_graph[requests] = self._read_pod_certificate_request

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        node = node_of(attributes.user)
        if node is None or not attributes.is_resource:
            return NO_OPINION
        if not node:
            return _no_opinion(f"unknown node for user {quoted_start(attributes.user.name)}")
        resource = attributes.group, attributes.resource
        rule = self._by_graph.get(resource)
        if rule is None and attributes.verb in _READ_VERBS and not attributes.subresource:
            rule = self._reads_by_graph.get(resource)
        if rule is not None:
            return (
                rule(node, attributes) if self._graph.current else self._decide_later(rule, node, attributes)
            )
        rule = self._by_name.get(resource)
        if rule is not None:
            return rule(node, attributes)
        return self._common_rule(attributes)

    async def rules(self, user: User, namespace: str) -> Rules:
        """None: the permissions of a node depend on its pods, and are no list of rules."""
        return _NOT_LISTED if node_of(user) is not None else NO_RULES

    async def _decide_later(self, rule: Rule, node: str, attributes: Attributes) -> Decision:
        await self._graph.wait()
        return rule(node, attributes)

    def _secret(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_read(attributes) or _related(
            node, self._graph.reads_secret(node, attributes.namespace, attributes.name)
        )

    def _config_map(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_read(attributes) or self._named_in_pod(node, attributes, CONFIG_MAP)

    def _claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource != "status":
            return _why_not_get(attributes) or self._named_in_pod(node, attributes, CLAIM)
        if attributes.verb not in ("update", "patch"):
            return _no_opinion("can only get/update/patch this type")
        return self._named_in_pod(node, attributes, CLAIM)

    def _volume(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_get(attributes) or _related(node, self._graph.mounts_volume(node, attributes.name))

    def _attachment(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_get(attributes) or _related(node, self._graph.has_attachment(node, attributes.name))

    def _token(self, node: str, attributes: Attributes) -> Decision:
        if self._has_account_rule and attributes.verb == "get" and not attributes.subresource:
            if not self._gets_accounts:
                return _no_opinion("not allowed to get service accounts")
            return _why_not_read(attributes) or self._named_in_pod(node, attributes, ACCOUNT)
        if attributes.verb != "create" or not attributes.name:
            return _no_opinion("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no_opinion("can only create token subresource of serviceaccount")
        return self._named_in_pod(node, attributes, ACCOUNT)

    def _read_pod(self, node: str, attributes: Attributes) -> Decision:
        """Reads of a node's own pods; NodeRestriction limits the writes."""
        if attributes.verb == "get":
            return _why_not_get(attributes) or self._bound(node, attributes)
        if _selects_node(attributes, node):
            return ALLOWED
        if attributes.name:
            return self._bound(node, attributes)
        return _no_opinion("can only list/watch pods with spec.nodeName field selector")

    def _bound(self, node: str, attributes: Attributes) -> Decision:
        return _related(node, self._graph.runs_pod(node, attributes.namespace, attributes.name))

    def _node(self, node: str, attributes: Attributes) -> Decision:
        """Reads of the node itself, which may not exist yet; NodeRestriction limits the writes."""
        name = attributes.name
        if attributes.subresource or attributes.verb not in _READ_VERBS:
            return self._common_rule(attributes)
        if name == node:
            return ALLOWED
        what = f"'{name}'" if name else "all nodes"
        return _no_opinion(f"node '{node}' cannot read {what}, only its own Node object")

    def _pod_certificate_request(self, node: str, attributes: Attributes) -> Decision:
        verb = attributes.verb
        if attributes.subresource:
            return _no_opinion("nodes may not access the status subresource of PodCertificateRequests")
        return ALLOWED if verb == "create" else _no_opinion(f"nodes may not {verb} podcertificaterequests")

    def _read_pod_certificate_request(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb == "get":
            if not attributes.name:
                return _no_opinion("No Object name found")
            return _related(node, self._graph.has_request(node, attributes.namespace, attributes.name))
        if _selects_node(attributes, node):
            return ALLOWED
        return _no_opinion("can only list/watch podcertificaterequests with nodeName field selector")

    def _common_rule(self, attributes: Attributes) -> Decision:
        rule = attributes.group, attributes.resource, attributes.subresource
        return ALLOWED if attributes.verb in self._common.get(rule, ()) else NO_OPINION

    def _named_in_pod(self, node: str, attributes: Attributes, prefix: str) -> Decision:
        if not attributes.name:
            return _no_opinion("No Object name found")
        return _related(node, self._graph.names_in_pod(node, attributes.namespace, prefix + attributes.name))

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != self._lease_namespace:
            return _no_opinion(f'can only access leases in the "{self._lease_namespace}" system namespace')
        # The name is not known when a lease is created: NodeRestriction checks it then.
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _no_opinion("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access CSINode with the same name as the requesting node")
        return ALLOWED


class NodeUserRouter:
    """Calls one authorizer for users with the name of a node and another for all others, who pay for one comparison."""

    def __init__(self, of_nodes: AuthorizerChain, of_others: AuthorizerChain) -> None:
        self._of_nodes = of_nodes
        self._of_others = of_others

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        if attributes.user.name.startswith(NODE_PREFIX):
            return self._of_nodes.authorize(attributes)
        return self._of_others.authorize(attributes)

    async def rules(self, user: User, namespace: str) -> Rules:
        chosen = self._of_nodes if user.name.startswith(NODE_PREFIX) else self._of_others
        return await chosen.rules(user, namespace)


def _why_not_read(attributes: Attributes) -> Decision | None:
    """Why a node may not read this, whatever its pods name; for objects that it may also list and watch by name."""
    if attributes.verb not in _READ_VERBS:
        return _no_opinion("can only read resources of this type")
    if attributes.subresource:
        return _no_opinion("cannot read subresource")
    if not attributes.namespace:
        return _no_opinion("can only read namespaced object of this type")
    return None if attributes.name else _no_opinion("No Object name found")


def _why_not_get(attributes: Attributes) -> Decision | None:
    if attributes.verb != "get":
        return _no_opinion("can only get individual resources of this type")
    if attributes.subresource:
        return _no_opinion("cannot get subresource")
    return None if attributes.name else _no_opinion("No Object name found")


def _selects_node(attributes: Attributes, node: str) -> bool:
    """Whether the field selector selects only objects of this node."""
    wanted = FieldRequirement("spec.nodeName", "=", node)
    return wanted in field_requirements(attributes)


def _related(node: str, found: bool) -> Decision:
    if found:
        return ALLOWED
    return _no_opinion(f"no relationship found between node '{node}' and this object")


def _no_opinion(reason: str) -> Decision:
    return Decision(Verdict.NO_OPINION, reason)


Verbs = frozenset[str]
READ: Verbs = frozenset({"get", "list", "watch"})
CREATE: Verbs = frozenset({"create"})
UPDATE: Verbs = frozenset({"update", "patch"})


def node_rules(names: Names, features: frozenset[str]) -> Mapping[tuple[str, str, str], Verbs]:
    """What every node may do with resources for which the Node authorizer does not distinguish nodes.

    NodeRestriction limits the writes among them to the node itself and its pods.

    Verbs by group, resource and subresource.
    """
    authorization, storage = names.group("authorization"), names.group("storage")
    added: dict[tuple[str, str, str], Verbs] = {}
    if TRUST_BUNDLES in features:
        added[names.group("certificates"), "clustertrustbundles", ""] = READ
    if NODES_WRITE_NEW_EVENTS in features:
        added[names.group("events"), "events", ""] = CREATE | UPDATE
    return added | {
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


logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace and name

# A reference of a pod is one of these prefixes and a name.
SECRET, CONFIG_MAP, CLAIM, ACCOUNT = "secret/", "configmap/", "claim/", "account/"

_BOUND: Final = field_bytes("spec.nodeName")
_EPHEMERAL: Final = b'"ephemeralContainers":['  # in the body of a pod that has some
_AT_ONCE: Final = 16  # objects read between two checkpoints: about a millisecond
_FEW: Final = 8  # up to here a tuple is smaller than a set and as fast
_NO_PODS: Final[dict[str, dict[str, BoundPod]]] = {}


@dataclass(frozen=True, slots=True)
class BoundPod:
    uid: str
    node: str
    references: tuple[str, ...] | frozenset[str]  # in the pod's namespace


class UnreadPod:
    """A large pod whose references are not known yet; a new one for each write that may add some."""

    __slots__ = ("uid",)

    def __init__(self, uid: str) -> None:
        self.uid = uid


@dataclass(frozen=True, slots=True)
class BoundVolume:
    claim: Key
    secrets: tuple[Key, ...]


class NodeGraph:
    """Which node needs which object: pods bound to a node, the objects they name, and the volumes of their claims.

        node  <-  pod  <-  secret, config map, service account
        node  <-  pod  <-  claim  <-  volume  <-  secret
        node  <-  volume attachment

    The Node authorizer queries it. Most clusters here have no kubelet that asks, so it is built for the first question:
    `run` then reads the journal in turns, and the references of large pods in a thread. Until it is done, `current` is
    False and requests of nodes wait (`wait`), because an answer from part of the graph could be wrong. From then on the
    feed keeps it current: an object that a pod names is related to the node from the reply to the pod's binding to the
    reply to its deletion.

    Each edge is stored once, where it starts: a pod has its references, a volume its claim and its secrets. Once a pod
    is bound, only ephemeral containers can add references, so most writes of pods cost a check of their facts and a
    search for such containers. Mirror pods, which nodes create themselves, relate their node to nothing.
    """

    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._mirror = names.key("config.mirror")
        self._bound: dict[Key, BoundPod] = {}
        self._pods: dict[str, dict[str, dict[str, BoundPod]]] = {}  # by node, namespace and name
        self._volumes: dict[str, BoundVolume] = {}
        self._volumes_of_claim: dict[Key, tuple[str, ...]] = {}
        self._uses_of_secret: dict[Key, int] = {}  # by volumes
        self._attachments: dict[str, str] = {}  # the nodes of volume attachments
        self._requests: dict[Key, str] = {}  # the nodes of pod certificate requests
        self._unread: dict[Key, UnreadPod] = {}
        self._asked = trio.Event()
        self._follows = False
        self._built = False
        self._changed = trio.lowlevel.ParkingLot()  # `current` may have become true
        self._work = trio.lowlevel.ParkingLot()  # there are unread pods
        self._types: dict[int, Callable[[str, str, bytes, bytes], None]] = {
            journal.type_id("pods"): self._take_pod,
            journal.type_id("persistentvolumes"): self._take_volume,
            journal.type_id(f"volumeattachments.{names.group('storage')}"): self._take_attachment,
            journal.type_id(f"podcertificaterequests.{names.group('certificates')}"): self._take_request,
        }
        drops = self._drop_pod, self._drop_volume, self._drop_attachment, self._drop_request
        self._removals: dict[int, Callable[[str, str], None]] = dict(zip(self._types, drops, strict=True))
        self._feed = feed

    @property
    def current(self) -> bool:
        return self._built and not self._unread

    async def wait(self) -> None:
        """Wait until the graph is current; `run` builds it for the first that waits."""
        self._asked.set()
        while not self.current:
            await self._changed.park()

    def names_in_pod(self, node: str, namespace: str, reference: str) -> bool:
        """Whether a pod of the node refers to this: `SECRET` or another prefix, and the name."""
        pods = self._pods.get(node, _NO_PODS).get(namespace)
        return pods is not None and any(reference in pod.references for pod in pods.values())

    def runs_pod(self, node: str, namespace: str, name: str) -> bool:
        """Whether a pod is bound to the node."""
        pod = self._bound.get((namespace, name))
        return pod is not None and pod.node == node

    def has_request(self, node: str, namespace: str, name: str) -> bool:
        """Whether a PodCertificateRequest is for a pod of the node."""
        return self._requests.get((namespace, name)) == node

    def reads_secret(self, node: str, namespace: str, name: str) -> bool:
        if self.names_in_pod(node, namespace, SECRET + name):
            return True
        secret = namespace, name
        return secret in self._uses_of_secret and any(
            secret in self._volumes[volume].secrets for volume in self._volumes_of(node)
        )

    def mounts_volume(self, node: str, name: str) -> bool:
        volume = self._volumes.get(name)
        return volume is not None and self.names_in_pod(node, volume.claim[0], CLAIM + volume.claim[1])

    def has_attachment(self, node: str, name: str) -> bool:
        return self._attachments.get(name) == node

    def _volumes_of(self, node: str) -> Iterator[str]:
        """The volumes of a node; searched instead of all volumes that use a secret, which may be all of the cluster."""
        for namespace, pods in self._pods.get(node, _NO_PODS).items():
            for pod in pods.values():
                for reference in pod.references:
                    if reference.startswith(CLAIM):
                        yield from self._volumes_of_claim.get((namespace, reference[len(CLAIM) :]), ())

    async def run(self) -> None:
        """Build the graph once somebody waits for it, then read the references of large pods forever."""
        self._built = False
        await self._asked.wait()
        if not self._follows:
            self._feed.follow(self._committed, frozenset(self._types))
            self._follows = True
        for type_id, take in self._types.items():
            await self._read_all(type_id, take)
        self._built = True
        self._changed.unpark_all()
        while True:
            await self._read_large_pods()
            self._changed.unpark_all()
            if not self._unread:
                await self._work.park()

    async def _read_all(self, type_id: int, take: Callable[[str, str, bytes, bytes], None]) -> None:
        """Take every object of a type, without a checkpoint between reading and taking it: the feed may be ahead."""
        after: Key | None = "", ""
        while after is not None:
            turn = Turn()
            with self._journal.read() as view:
                rows, after = view.rows(type_id, None, after, _AT_ONCE), None
                for count, (namespace, name, row) in enumerate(rows, 1):
                    take(namespace, name, row.facts, row.body)
                    if count == _AT_ONCE or turn.over():
                        after = namespace, name
                        break
            await trio.lowlevel.checkpoint()

    async def _read_large_pods(self) -> None:
        type_id = self._journal.type_id("pods")
        for key, unread in list(self._unread.items()):
            with self._journal.read() as view:
                row = view.get(type_id, *key)
            if row is None or unpack_uids(row.facts)[0] != unread.uid:
                continue  # the feed is about to report that the pod is gone
            pod = await trio.to_thread.run_sync(self._pod_of, row.body)
            if self._unread.get(key) is unread:  # otherwise it was deleted or changed in the meantime
                del self._unread[key]
                self._add_pod(key, pod)
        if self._unread:
            await trio.lowlevel.checkpoint()

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id not in self._types:
                continue
            if event.removed:
                self._removals[event.type_id](event.namespace, event.name)
            else:
                self._take(event)

    def _take(self, event: Event) -> None:
        try:
            self._types[event.type_id](event.namespace, event.name, event.facts, event.body)
        except Exception:  # other events must still count: they may revoke permissions
            self._removals[event.type_id](event.namespace, event.name)
            logger.exception("%r cannot be read: it relates no node to anything", event.name)

    def _take_pod(self, namespace: str, name: str, facts: bytes, body: bytes) -> None:
        key = namespace, name
        if _BOUND not in facts:
            if key in self._bound or key in self._unread:
                self._drop_pod(*key)
            return
        uid = unpack_uids(facts)[0]
        known = self._bound.get(key) or self._unread.get(key)
        if known is not None and known.uid == uid and _EPHEMERAL not in body:
            return
        self._drop_pod(*key)
        if len(body) > LARGE_BYTES:
            self._unread[key] = UnreadPod(uid)
            self._work.unpark_all()
        else:
            self._add_pod(key, self._pod_of(body))

    def _pod_of(self, body: bytes) -> BoundPod:
        pod = decode(body)
        metadata, spec = pod["metadata"], pod["spec"]
        mirror = self._mirror in metadata.get("annotations", ())
        found = () if mirror else tuple(sorted(set(_references(metadata["name"], spec))))
        return BoundPod(
            metadata["uid"], intern(spec["nodeName"]), found if len(found) <= _FEW else frozenset(found)
        )

    def _add_pod(self, key: Key, pod: BoundPod) -> None:
        self._bound[key] = pod
        self._pods.setdefault(pod.node, {}).setdefault(key[0], {})[key[1]] = pod

    def _drop_pod(self, namespace: str, name: str) -> None:
        key = namespace, name
        if self._unread.pop(key, None) is not None and self.current:
            self._changed.unpark_all()
        pod = self._bound.pop(key, None)
        if pod is None:
            return
        namespaces = self._pods[pod.node]
        del namespaces[namespace][name]
        if not namespaces[namespace]:
            del namespaces[namespace]
            if not namespaces:
                del self._pods[pod.node]

    def _take_volume(self, namespace: str, name: str, facts: bytes, body: bytes) -> None:
        self._drop_volume("", name)
        spec = decode(body)["spec"]
        claim = spec.get("claimRef")
        if claim is None:
            return
        key = claim.get("namespace", ""), claim.get("name", "")
        volume = self._volumes[name] = BoundVolume(key, tuple(set(secrets_of_volume(spec))))
        self._volumes_of_claim[key] = (*self._volumes_of_claim.get(key, ()), name)
        for secret in volume.secrets:
            self._uses_of_secret[secret] = self._uses_of_secret.get(secret, 0) + 1

    def _drop_volume(self, namespace: str, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        others = tuple(one for one in self._volumes_of_claim.pop(volume.claim) if one != name)
        if others:
            self._volumes_of_claim[volume.claim] = others
        for secret in volume.secrets:
            self._uses_of_secret[secret] -= 1
            if not self._uses_of_secret[secret]:
                del self._uses_of_secret[secret]

    def _take_attachment(self, namespace: str, name: str, facts: bytes, body: bytes) -> None:
        self._attachments[name] = intern(decode(body)["spec"]["nodeName"])

    def _drop_attachment(self, namespace: str, name: str) -> None:
        self._attachments.pop(name, None)

    def _take_request(self, namespace: str, name: str, facts: bytes, body: bytes) -> None:
        self._requests[namespace, name] = intern(decode(body)["spec"]["nodeName"])

    def _drop_request(self, namespace: str, name: str) -> None:
        self._requests.pop((namespace, name), None)


def _references(name: str, spec: Object) -> Iterator[str]:
    """The names are interned, because pods of one workload have the same."""
    account = spec.get("serviceAccountName")
    if account:
        yield intern(ACCOUNT + account)
    for prefix, found in (
        (SECRET, secrets_of_pod(spec)),
        (CONFIG_MAP, config_maps_of_pod(spec)),
        (CLAIM, claims_of_pod(spec)),
        (CLAIM, claims_of_ephemeral_volumes(name, spec)),
    ):
        for one in found:
            yield intern(prefix + one)
