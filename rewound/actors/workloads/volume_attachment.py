"""The attach-detach controller: volumes are attached to the node of a pod before it starts, and detached after it.

A volume that a pod needs, and that has to be attached, gets into `status.volumesAttached` of the node; one of a CSI
driver also has a VolumeAttachment, which its driver reports as attached first. A volume that no pod of the node needs
is detached when the node does not use it any more (`status.volumesInUse`), when the node has been unhealthy for six
minutes, or at once if the node has the taint out-of-service. A volume for one node waits until another has detached it.

Everything is read from stored objects, so a restart continues. Volumes of CSI drivers (unless a CSIDriver says that
they need no attachment), iSCSI and Fibre Channel are attached; in-tree plugins of clouds were moved to CSI drivers, and
other storage needs no attachment. `Attachables` knows what a pod needs; simulated nodes ask it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from rewound.actors.errors import AlreadyExists, NotFound
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.versions.features import WAITING_FOR_DETACH
from rewound.actors.workloads.cache import Cache, Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import (
    SOURCES_WITH_CLAIM,
    claim_of,
    claims_of_volumes,
    is_finished,
    is_ready,
    node_of,
)

_UNMOUNT_SECONDS: Final = 360.0  # that an unhealthy node has to unmount a volume
_SHARED_MODES: Final = {"ReadWriteMany", "ReadOnlyMany"}
_OWN_NAME: Final = re.compile("csi-[0-9a-f]{64}")  # of a VolumeAttachment
_STORAGE: Final = SOURCES_WITH_CLAIM | {"iscsi", "fc"}


class Attachable(NamedTuple):
    """A volume of a pod that has to be attached."""

    name: str  # unique, as the status of a node has it
    title: str  # as messages name it
    volume: str  # of the pod
    is_shared: bool  # whether several nodes may have it
    attachment: tuple[str, str] | None = None  # the driver and its handle; None: without a VolumeAttachment
    source: str = ""  # the PersistentVolume


class Attachables:
    """Finds the volumes of pods that have to be attached."""

    def __init__(self, cache: Cache, storage_group: str, key_prefix: str) -> None:
        """`key_prefix` is that of the names of plugins, such as `kubernetes.io/`."""
        self._claims = cache.collection("persistentvolumeclaims")
        self._volumes = cache.collection("persistentvolumes")
        self._drivers = cache.collection(f"csidrivers.{storage_group}")
        self._prefix = key_prefix

    @classmethod
    def of(cls, parts: Parts) -> Attachables:
        names = parts.context.names
        return cls(parts.cache, names.group("storage"), names.key(""))

    def of_pod(self, pod: Object) -> list[Attachable]:
        found = (self._attachable(pod, volume) for volume in pod["spec"].get("volumes") or ())
        return [one for one in found if one is not None]

    def _attachable(self, pod: Object, volume: Object) -> Attachable | None:
        if (claim_name := claim_of(pod, volume)) is None:
            return self._of_source(volume, volume["name"], volume["name"], is_shared=True)
        claim = self._claims.get(pod["metadata"]["namespace"], claim_name)
        if claim is None or (claim.get("status") or {}).get("phase") != "Bound":
            return None
        stored = self._volumes.get("", claim["spec"].get("volumeName", ""))
        if stored is None:
            return None
        name, modes = stored["metadata"]["name"], set(stored["spec"].get("accessModes") or ())
        is_shared = not modes or bool(modes & _SHARED_MODES)
        csi = stored["spec"].get("csi")
        if csi is None:
            return self._of_source(stored["spec"], name, volume["name"], is_shared)
        if not self._needs_attachment(csi["driver"]):
            return None
        driver, handle = csi["driver"], csi["volumeHandle"]
        unique = f"{self._prefix}csi/{driver}^{handle}"
        return Attachable(unique, name, volume["name"], is_shared, (driver, handle), name)

    def _needs_attachment(self, driver: str) -> bool:
        found = self._drivers.get("", driver)
        return found is None or found["spec"].get("attachRequired", True)

    def _of_source(self, spec: Object, title: str, volume: str, is_shared: bool) -> Attachable | None:
        if (disk := spec.get("iscsi")) is not None:
            name = f"iscsi/{disk.get('targetPortal', '')}:{disk.get('iqn', '')}:{disk.get('lun', 0)}"
        elif (disk := spec.get("fc")) is not None:
            names, lun = disk.get("targetWWNs"), disk.get("lun")
            has_target = names and lun is not None
            name = (
                f"fc/[{' '.join(names)}]:{lun}" if has_target else f"fc/[{' '.join(disk.get('wwids') or ())}]"
            )
        else:
            return None
        return Attachable(self._prefix + name, title, volume, is_shared)


def attachment_name(driver: str, handle: str, node: str) -> str:
    return f"csi-{sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def is_requested(name: str) -> bool:
    """Whether the controller has made the VolumeAttachment with this name."""
    return _OWN_NAME.fullmatch(name) is not None


def attached_to(node: Object) -> tuple[str, ...]:
    """The unique names of the volumes that are attached to a node."""
    return tuple(one["name"] for one in (node.get("status") or {}).get("volumesAttached") or ())


def _needs_storage(pod: Object) -> bool:
    """Whether a pod may have volumes that have to be attached."""
    return any(not _STORAGE.isdisjoint(one) for one in pod["spec"].get("volumes") or ())


def _node_of_attachment(attachment: Object) -> tuple[str]:
    return (attachment["spec"]["nodeName"],)


def _volume_of_attachment(attachment: Object) -> tuple[str, ...]:
    name = attachment["spec"]["source"].get("persistentVolumeName")
    return (name,) if name else ()


class AttachDetach(WorkloadController):
    """The key is a node."""

    name, account = "attachdetach", "attachdetach-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._managed = self.names.key("controller-managed-attach-detach", "volumes")
        self._csi = self.names.key("csi/")
        self._out_of_service = self.names.key("out-of-service", "node")
        self._waits_for_detach = WAITING_FOR_DETACH in parts.context.features
        self._attachables = Attachables.of(parts)
        self._nodes = self.cache.collection("nodes")
        self._by_volume = self._nodes.index(attached_to)
        self._pods = self.cache.collection("pods")
        self._by_node, self._by_claim = self._pods.index(node_of), self._pods.index(claims_of_volumes)
        self._claims = self.cache.collection("persistentvolumeclaims")
        self._volumes = self.cache.collection("persistentvolumes")
        group = self.names.group("storage")
        self._attachments = self.cache.collection(f"volumeattachments.{group}")
        self._on_node = self._attachments.index(_node_of_attachment)
        self._of_volume = self._attachments.index(_volume_of_attachment)
        self._asked: dict[str, dict[str, int]] = {}  # since when volumes of a node could be detached
        self._waiting: dict[str, set[str]] = {}  # the nodes that wait for a volume
        self._reported: dict[str, set[str]] = {}  # the volumes of which Events have said that a node waits
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)
        self._attachments.listen(self._attachment_changed)
        self._claims.listen(self._claim_changed)
        self._volumes.listen(self._volume_changed)
        self.cache.collection(f"csidrivers.{group}").listen(self._driver_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._asked.clear()
        self._waiting.clear()
        self._reported.clear()
        self._add_all()

    def _add_all(self) -> None:
        for node in self._nodes:
            self._node_changed(None, node)
        for pod in self._pods:
            self._pod_changed(None, pod)
        for attachment in self._attachments:
            self._attachment_changed(None, attachment)

    # What concerns which node

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if not _needs_storage(pod):
            return
        is_same = old is not None and new is not None and is_finished(old) == is_finished(new)
        if not is_same or (old is not None and node_of(old) != node_of(pod)):
            for name in node_of(pod):
                self.queue.add(("", name))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = new if new is not None else old
        assert node is not None
        before, after = set(attached_to(old)) if old else set(), set(attached_to(new)) if new else set()
        for volume in before - after:
            for waiting in self._waiting.pop(volume, ()):
                self.queue.add(("", waiting))
        name = node["metadata"]["name"]
        has_some = before or after or self._on_node.get(name)
        is_new = old is None or (new is not None and self._is_managed(new) != self._is_managed(old))
        if has_some or (is_new and any(_needs_storage(pod) for pod in self._by_node.get(name))):
            self.queue.add(("", name))

    def _attachment_changed(self, old: Object | None, new: Object | None) -> None:
        attachment = new if new is not None else old
        assert attachment is not None
        self.queue.add(("", attachment["spec"]["nodeName"]))
        if new is None:
            for waiting in tuple(self._waiting.values()):
                for node in waiting:
                    self.queue.add(("", node))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old["spec"] != new["spec"] or old["status"] != new["status"]):
            self._add_users(key_of(new))

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None and (claim := new["spec"].get("claimRef")) is not None:
            self._add_users((claim.get("namespace", ""), claim.get("name", "")))

    def _add_users(self, claim: Key) -> None:
        for pod in self._by_claim.get(claim):
            for node in node_of(pod):
                self.queue.add(("", node))

    def _driver_changed(self, _: Object | None, __: Object | None) -> None:
        self._add_all()

    def _is_managed(self, node: Object) -> bool:
        """Whether the kubelet of a node leaves attaching to this controller."""
        return (node["metadata"].get("annotations") or {}).get(self._managed) == "true"

    # One node

    async def reconcile(self, key: Key) -> None:
        name, node = key[1], self._nodes.get(*key)
        wanted = self._wanted(name)
        attached: tuple[str, ...] = ()
        if node is None:
            self._asked.pop(name, None)
        elif not self._is_managed(node):
            return
        else:
            attached = attached_to(node)
            kept = [one for one in attached if one in wanted or not self._may_detach(node, one)]
            if len(kept) < len(attached):  # before it is detached: nobody may mount it from now on
                await self._set_attached(node, kept)
                return  # the changed node comes back
        self._reported[name] = self._reported.get(name, set()) & wanted.keys()
        if not self._reported[name]:
            del self._reported[name]
        for attachment in tuple(self._on_node.get(name)):
            if self._is_left(attachment, name, {*wanted, *attached}):
                await self._delete(attachment)
        if node is not None:
            await self._attach(node, wanted)

    def _wanted(self, node: str) -> dict[str, tuple[Attachable, list[Object]]]:
        """The volumes that have to be attached to a node, with the pods that need them."""
        wanted: dict[str, tuple[Attachable, list[Object]]] = {}
        for pod in self._by_node.get(node):
            if not is_finished(pod):
                for one in self._attachables.of_pod(pod):
                    wanted.setdefault(one.name, (one, []))[1].append(pod)
        return wanted

    def _may_detach(self, node: Object, volume: str) -> bool:
        """Whether a volume that no pod needs may be detached by now; if not, the node comes back when it may."""
        name = node["metadata"]["name"]
        asked = self._asked.setdefault(name, {}).setdefault(volume, self.now())
        if volume not in (node["status"].get("volumesInUse") or ()):
            return True
        if any(taint["key"] == self._out_of_service for taint in node["spec"].get("taints") or ()):
            return True
        if is_ready(node):
            return False
        left = _UNMOUNT_SECONDS - (self.now() - asked) / 1_000_000
        if left > 0:
            self.queue.add_after(("", name), left)
        return left <= 0

    def _is_left(self, attachment: Object, node: str, needed: Iterable[str]) -> bool:
        """Whether this controller has made a VolumeAttachment for a volume that its node does not need any more."""
        name = attachment["metadata"]["name"]
        return is_requested(name) and name not in {
            attachment_name(driver, handle, node)
            for one in needed
            for driver, _, handle in (one.removeprefix(self._csi).partition("^"),)
        }

    async def _attach(self, node: Object, wanted: dict[str, tuple[Attachable, list[Object]]]) -> None:
        attached, asked = attached_to(node), self._asked.get(node["metadata"]["name"], {})
        for name in [name for name in asked if name in wanted or name not in attached]:
            del asked[name]
        new = []
        for name, (one, pods) in wanted.items():
            if (
                name not in attached
                and not self._is_held(one, node, pods)
                and await self._is_attached(one, node)
            ):
                new.append(one)
        if not new:
            return
        await self._set_attached(node, sorted({*attached, *(one.name for one in new)}))
        for one in new:
            self._reported.get(node["metadata"]["name"], set()).discard(one.name)
            message = f'AttachVolume.Attach succeeded for volume "{one.title}" '
            for pod in wanted[one.name][1]:
                self.recorder.event(self._pods.definition, pod, "Normal", "SuccessfulAttachVolume", message)

    def _is_held(self, one: Attachable, node: Object, pods: Iterable[Object]) -> bool:
        """Whether another node has a volume that only one may have; then this one waits, and Events say so."""
        if one.is_shared:
            return False
        name = node["metadata"]["name"]
        holders = {other["metadata"]["name"] for other in self._by_volume.get(one.name)}
        holders |= (
            {other["spec"]["nodeName"] for other in self._of_volume.get(one.source)} if one.source else set()
        )
        if not holders - {name}:
            return False
        self._waiting.setdefault(one.name, set()).add(name)
        if one.name not in (reported := self._reported.setdefault(name, set())):
            reported.add(one.name)
            users = [
                pod
                for holder in sorted(holders - {name})
                for pod in self._by_node.get(holder)
                if not is_finished(pod)
                and any(other.name == one.name for other in self._attachables.of_pod(pod))
            ]
            for pod in pods:
                message = self._held_message(one, pod, users)
                self.recorder.event(self._pods.definition, pod, "Warning", "FailedAttachVolume", message)
        return True

    def _held_message(self, one: Attachable, pod: Object, users: list[Object]) -> str:
        prefix = "Waiting for detach" if self._waits_for_detach else "Multi-Attach error"
        namespace = pod["metadata"]["namespace"]
        near = [user["metadata"]["name"] for user in users if user["metadata"]["namespace"] == namespace]
        far = len(users) - len(near)
        if not users:
            why = "Volume is already exclusively attached to one node"
            why += (
                ", waiting on detach before it can be attached to another node"
                if self._waits_for_detach
                else " and can't be attached to another"
            )
        elif near:
            why = f"Volume is already used by pod(s) {', '.join(near)}"
            why += f" and {far} pod(s) in different namespaces" if far else ""
        else:
            why = f"Volume is already used by {far} pod(s) in different namespaces"
        return f'{prefix} for volume "{one.title}" {why}'

    async def _is_attached(self, one: Attachable, node: Object) -> bool:
        """Whether a volume is attached by now; one of a CSI driver gets a VolumeAttachment first."""
        if one.attachment is None:
            return True
        driver, handle = one.attachment
        node_name = node["metadata"]["name"]
        name = attachment_name(driver, handle, node_name)
        found = self._attachments.get("", name)
        if found is not None:
            is_deleted = "deletionTimestamp" in found["metadata"]
            return not is_deleted and bool((found.get("status") or {}).get("attached"))
        source = {"persistentVolumeName": one.source}
        made = {
            "metadata": {"name": name},
            "spec": {"attacher": driver, "nodeName": node_name, "source": source},
        }
        definition = self._attachments.definition
        try:
            await self.client.create(definition, "", definition.schema.decode_object(made).object)
        except AlreadyExists:
            pass
        return False

    async def _set_attached(self, node: Object, names: Iterable[str]) -> None:
        listed = [{"name": name, "devicePath": ""} for name in names] or None
        patch = {"metadata": {"uid": node["metadata"]["uid"]}, "status": {"volumesAttached": listed}}
        await self.client.patch(self._nodes.definition, *key_of(node), patch, subresource="status")

    async def _delete(self, attachment: Object) -> None:
        if "deletionTimestamp" in attachment["metadata"]:
            return
        options = DeleteOptions(uid=attachment["metadata"]["uid"])
        try:
            await self.client.delete(self._attachments.definition, *key_of(attachment), options)
        except NotFound:
            return
