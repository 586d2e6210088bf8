"""Which node needs which object: pods bound to a node, what they name, and what their claims lead to.

    node  <-  pod  <-  secret, config map, service account
    node  <-  pod  <-  claim  <-  volume  <-  secret
    node  <-  volume attachment

The Node authorizer asks it with every request of a node. The feed keeps it current: an object that a pod names is
related to the node from the reply to the pod's binding to the reply to its deletion. At the start `run` reads the
journal in turns; the references of large pods it reads in a thread. Until it is done, `current` is False and requests
of nodes wait (`wait`), because an answer from a part of the graph could be wrong.

Edges are kept where they begin, each once: a pod has its references, a volume its claim and its secrets. Once a pod is
bound, only ephemeral containers can name more, so most writes of pods cost a look at their facts and a search for such
containers. Mirror pods, which nodes create themselves, relate their node to nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Final

import trio

from actors.kinds.core.pods import references
from actors.kinds.core.volume_secrets import secrets_for_nodes
from actors.large_work import LARGE_BYTES
from actors.messages import Object
from actors.names import Names
from actors.selectors.facts import field_bytes, unpack_uids
from actors.store.document import decode
from actors.store.feed import Feed
from actors.turns import Turn
from journal.log import Journal
from journal.records import Event

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace and name

# What a pod refers to is one of these and a name.
SECRET, CONFIG_MAP, CLAIM, ACCOUNT = "secret/", "configmap/", "claim/", "account/"

_BOUND: Final = field_bytes("spec.nodeName")
_EPHEMERAL: Final = b'"ephemeralContainers":['  # in the body of a pod that has some
_AT_ONCE: Final = 16  # objects that are read between two checkpoints: about a millisecond
_FEW: Final = 8  # up to here a tuple is smaller than a set and as quick
_NO_PODS: Final[dict[str, dict[str, BoundPod]]] = {}


@dataclass(frozen=True, slots=True)
class BoundPod:
    uid: str
    node: str
    references: tuple[str, ...] | frozenset[str]  # in the pod's namespace


class UnreadPod:
    """A large pod whose references are not known yet; another one for each write that may add some."""

    __slots__ = ("uid",)

    def __init__(self, uid: str) -> None:
        self.uid = uid


@dataclass(frozen=True, slots=True)
class BoundVolume:
    claim: Key
    secrets: tuple[Key, ...]


class NodeGraph:
    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._mirror = names.key("config.mirror")
        self._bound: dict[Key, BoundPod] = {}
        self._pods: dict[str, dict[str, dict[str, BoundPod]]] = {}  # by node, namespace and name
        self._volumes: dict[str, BoundVolume] = {}
        self._volumes_of_claim: dict[Key, tuple[str, ...]] = {}
        self._uses_of_secret: dict[Key, int] = {}  # by volumes
        self._attachments: dict[str, str] = {}  # the nodes of volume attachments
        self._unread: dict[Key, UnreadPod] = {}
        self._built = False
        self._changed = trio.lowlevel.ParkingLot()  # `current` may have become true
        self._work = trio.lowlevel.ParkingLot()  # there are unread pods
        self._types: dict[int, Callable[[str, str, bytes, bytes], None]] = {
            journal.type_id("pods"): self._take_pod,
            journal.type_id("persistentvolumes"): self._take_volume,
            journal.type_id(f"volumeattachments.{names.group('storage')}"): self._take_attachment,
        }
        self._removals: dict[int, Callable[[str, str], None]] = dict(
            zip(self._types, (self._drop_pod, self._drop_volume, self._drop_attachment), strict=True)
        )
        feed.follow(self._committed, frozenset(self._types))

    # Questions.

    @property
    def current(self) -> bool:
        return self._built and not self._unread

    async def wait(self) -> None:
        """Wait until the graph is current."""
        while not self.current:
            await self._changed.park()

    def names_in_pod(self, node: str, namespace: str, reference: str) -> bool:
        """Whether a pod of the node refers to this: `SECRET` or another prefix, and the name."""
        pods = self._pods.get(node, _NO_PODS).get(namespace)
        return pods is not None and any(reference in pod.references for pod in pods.values())

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
        """The volumes of a node; not all volumes that use a secret, which may be all of the cluster."""
        for namespace, pods in self._pods.get(node, _NO_PODS).items():
            for pod in pods.values():
                for reference in pod.references:
                    if reference.startswith(CLAIM):
                        yield from self._volumes_of_claim.get((namespace, reference[len(CLAIM) :]), ())

    # Building.

    async def run(self) -> None:
        """Build the graph, then read the references of large pods for ever."""
        self._built = False
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
            if self._unread.get(key) is unread:  # it may have been deleted or changed meanwhile
                del self._unread[key]
                self._add_pod(key, pod)
        if self._unread:
            await trio.lowlevel.checkpoint()

    # Changes.

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
        except Exception:  # other events must count all the same: they may take rights away
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
        volume = self._volumes[name] = BoundVolume(key, tuple(set(secrets_for_nodes(spec))))
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


def _references(name: str, spec: Object) -> Iterator[str]:
    """Interned, because pods of one workload have the same."""
    account = spec.get("serviceAccountName")
    if account:
        yield intern(ACCOUNT + account)
    for prefix, found in (
        (SECRET, references.secrets(spec)),
        (CONFIG_MAP, references.config_maps(spec)),
        (CLAIM, references.claims(spec)),
        (CLAIM, references.claims_of_ephemeral_volumes(name, spec)),
    ):
        for one in found:
            yield intern(prefix + one)
