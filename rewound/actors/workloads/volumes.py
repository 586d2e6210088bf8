"""The volume binder: it binds claims to volumes, provisions volumes, and reclaims released ones.

Claims and volumes are reconciled one at a time by their keys; a volume has the namespace "". A binding is four writes,
as in v1.25: the volume, its phase, the claim, its phase. The volume comes first, so that two claims never get the same:
the version check rejects the second. If it is interrupted, the next reconcile of the claim finishes it.

A class with the provisioner `sim` gets its volumes here, at once. For any other provisioner the claim is annotated, as
external provisioners expect, and waits. No volume has content: reclaiming one deletes nothing outside of the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from heapq import heappop
from typing import Final

import trio

from rewound.actors.errors import AlreadyExists, Conflict, NotFound
from rewound.actors.kinds.core.volumes import PERSISTENT_VOLUME_CLAIM_SPEC
from rewound.actors.kinds.storage import DefaultClassMarks
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.actors.versions.features import HONOURED_POLICY, RETROACTIVE_CLASS
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import CHANGED, Parts, WorkloadController
from rewound.actors.workloads.pods import claims_of_volumes, copied, is_finished, is_terminating
from rewound.actors.workloads.volume_matching import (
    WAITS,
    Ranked,
    VolumeKeys,
    annotations_of,
    attributes_class_of,
    capacity,
    class_of,
    is_free,
    is_free_match,
    is_reserved_for,
    ranked_matches,
    refusal,
    volume_modes_differ,
)
from rewound.journal.records import Event

# Of the classes whose volumes this server provides, and the driver of these volumes.
PROVISIONER: Final = "sim"
TOPOLOGY: Final = "topology"  # their only parameter: a label of nodes; a volume is where its first pod is
# In v1.25 CSI drivers with these names handle them.
MIGRATED: Final = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "azure-file": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
    "vsphere-volume": "csi.vsphere.vmware.com",
}
# Plugins that v1.25 has, and that cannot provision.
_NOT_PROVISIONABLE: Final = ("csi", "local-volume", "nfs")
# Sources that can be recycled, with the timeout of v1.25 for the recycler pod in seconds: minimum, and per Gi.
_RECYCLABLE: Final = {"hostPath": (60, 30), "nfs": (300, 30)}
_RECYCLER: Final = "recycler-for-"  # and the name of a volume: a pod in the namespace default
_SCRUB: Final = (
    'test -e /scrub && rm -rf /scrub/..?* /scrub/.[!.]* /scrub/*  && test -z "$(ls -A /scrub)" || exit 1'
)
_GI: Final = 2**30 * 10**9  # in the unit of capacities
# Sources that the controller of v1.25 has a plugin for: none can be deleted without the storage behind it.
_KNOWN_SOURCES: Final = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cinder",
        "csi",
        "gcePersistentDisk",
        "glusterfs",
        "local",
        "nfs",
        "portworxVolume",
        "rbd",
        "vsphereVolume",
    }
)
_DELETABLE_PATH: Final = re.compile("/tmp/.+")  # v1.25 deletes host paths only there
_RECLAIMED: Final = ("Released", "Failed")
_VOLUMES: Final = ("", CHANGED)  # the key of changed volumes, if many claims may want one
_FEW_CLAIMS: Final = 20  # for a listener to check


class ProvisioningError(Exception):
    """Why a volume cannot be provisioned."""


class VolumeBinder(WorkloadController):
    name, account, component = (
        "persistentvolume-binder",
        "persistent-volume-binder",
        "persistentvolume-controller",
    )

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._period = parts.context.workloads.pvclaimbinder_sync_period
        self._default_class = parts.context.workloads.default_storage_class
        self._keys = keys = VolumeKeys(self.names)
        self._honours_policy = HONOURED_POLICY in self.release.features
        self._marks = DefaultClassMarks(self.names)
        self._migrated = {self.names.key(plugin): driver for plugin, driver in MIGRATED.items()}
        self._own_domain = self.names.key("")  # of provisioners that were part of the controller manager
        self._host_path = self.names.key("host-path")
        self._volumes = self.keyed_by("persistentvolumes")
        self._claims = self.keyed_by("persistentvolumeclaims")
        self._classes = self.cache.collection(f"storageclasses.{self.names.group('storage')}")
        self._nodes = self.cache.collection("nodes")
        self._pods = self.cache.collection("pods")
        self._pods_of_claim = self._pods.index(claims_of_volumes)
        self._events = parts.context.journal.type_id("events")
        self.observed_types = frozenset({self._events})
        self._reserved = self._volumes.index(_claim_of_volume)
        self._free = self._volumes.index(
            lambda volume: () if volume["spec"].get("claimRef") else (class_of(volume, keys),)
        )
        self._unbound = self._claims.index(
            lambda claim: () if keys.bind_completed in annotations_of(claim) else (class_of(claim, keys),)
        )
        self._naming = self._claims.index(_volume_of_claim)
        self._changed_volumes: dict[str, None] = {}
        self._recycle_at: dict[str, float] = {}  # when to retry a failed recycling of a volume
        self._binding: set[str] = set()  # volumes that a running reconcile binds
        self._volumes.listen(self._volume_changed)
        self._claims.listen(self._claim_changed)
        self._classes.listen(self._class_changed)
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await super().catch_up()
        if self._default_class and self._classes.get("", self._default_class) is None:
            await self._create_default_class()

    async def _create_default_class(self) -> None:
        annotations = {self.names.key("is-default-class", "storageclass"): "true"}
        new = {
            "metadata": {"name": self._default_class, "annotations": annotations},
            "provisioner": PROVISIONER,
            "allowVolumeExpansion": True,
        }
        definition = self._classes.definition
        try:
            await self.client.create(definition, "", definition.schema.decode_object(new).object)
        except AlreadyExists:
            return

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        stored = new or old
        assert stored is not None
        if new is None:
            self._recycle_at.pop(stored["metadata"]["name"], None)
        for claim_key in _claim_of_volume(stored):
            if self._claims.get(*claim_key) is not None:
                self.queue.add(claim_key)
        name = stored["metadata"]["name"]
        if len(self._naming.get(name)) + len(self._candidates(name)) > _FEW_CLAIMS:
            self._changed_volumes[name] = None
            self.queue.add(_VOLUMES)
            return
        for _ in self._find_claims_for((name,)):
            pass

    def _candidates(self, name: str) -> Collection[Object]:
        """The claims that may get a volume, if it is free."""
        volume = self._volumes.get("", name)
        if volume is None or not is_free(volume):
            return ()
        class_name = class_of(volume, self._keys)
        return () if self._waits_for_pod(class_name) else self._unbound.get(class_name)

    def _find_claims_for(self, names: Iterable[str]) -> Steps[None]:
        """Find the claims that changed volumes concern."""
        for name in names:
            for part in parts_of(self._naming.get(name)):
                for claim in part:
                    self.queue.add(key_of(claim))
                yield
            volume = self._volumes.get("", name)
            if volume is None:
                continue
            matches = partial(is_free_match, volume, keys=self._keys)
            matching = yield from chosen(self._candidates(name), matches)
            for part in parts_of(matching):
                for claim in part:
                    self.queue.add(key_of(claim))
                yield

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        stored = new or old
        assert stored is not None
        for name in _volume_of_claim(stored):
            self.queue.add(("", name))
        for volume in self._reserved.get(key_of(stored)):
            self.queue.add(key_of(volume))

    def _class_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._wake(new["metadata"]["name"])

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        stored = new or old
        assert stored is not None
        namespace, name = key_of(stored)
        if namespace == "default" and name.startswith(_RECYCLER):
            self.queue.add(("", name.removeprefix(_RECYCLER)))

    def observe(self, events: Sequence[Event]) -> None:
        """Report Events about a pod that recycles a volume also about the volume."""
        for event in events:
            if event.type_id != self._events or not event.name.startswith(_RECYCLER):
                continue
            if event.namespace == "default" and not event.previous and not event.removed:
                self._report_recycler(decode(event.body))

    def _report_recycler(self, reported: Object) -> None:
        name = reported["involvedObject"].get("name", "").removeprefix(_RECYCLER)
        volume = self._volumes.get("", name)
        if volume is not None:
            message = f"Recycler pod: {reported.get('message', '')}"
            self._report_volume(volume, reported.get("type", "Normal"), "RecyclerPod", message)

    def _wake(self, class_name: str) -> None:
        for claim in self._unbound.get(class_name):
            self.queue.add(key_of(claim))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if key == _VOLUMES:
            changed, self._changed_volumes = self._changed_volumes, {}
            await in_turns(self._find_claims_for(changed))
        elif namespace:
            claim = self._claims.get(namespace, name)
            if claim is None:
                return
            if self._keys.bind_completed in annotations_of(claim):
                await self._reconcile_bound(claim)
            else:
                await self._reconcile_unbound(claim)
        elif (volume := self._volumes.get("", name)) is not None:
            await self._reconcile_volume(volume)

    async def _reconcile_unbound(self, claim: Object) -> None:
        if name := claim["spec"].get("volumeName"):
            await self._bind_to_named(claim, name)
            return
        class_name = class_of(claim, self._keys)
        waits = self._waits_for_pod(class_name)
        candidates = (*self._reserved.get(key_of(claim)), *self._free.get(class_name))
        ranked = await in_turns(ranked_matches(claim, candidates, self._keys, only_reserved=waits))
        if self._claims.get(*key_of(claim)) is not claim:
            return  # it has changed, and its key was added again
        volume = self._first_free(ranked)
        if volume is not None:
            await self._bind(volume, claim)
            return
        # v1.25 repeats its reports with every period, and so does this.
        self.queue.add_after(key_of(claim), self._period)
        if await self._gets_default_class(claim):
            return
        if waits and self._keys.selected_node not in annotations_of(claim):
            self._report_waiting(claim)
        elif class_name:
            await self._provision(claim, class_name)
            return
        else:
            self._report(
                claim,
                "Normal",
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            )
        await self._set_claim_phase(claim, "Pending", None)

    async def _gets_default_class(self, claim: Object) -> bool:
        """Name the default class in a claim that was created before there was one."""
        if RETROACTIVE_CLASS not in self.release.features or "storageClassName" in claim["spec"]:
            return False
        if self._keys.beta_class in annotations_of(claim):
            return False
        defaults = [one for one in self._classes.in_namespace("") if self._marks.are_on(one)]
        if not defaults:
            return False
        newest = max(one["metadata"]["creationTimestamp"] for one in defaults)
        name = min(
            one["metadata"]["name"] for one in defaults if one["metadata"]["creationTimestamp"] == newest
        )
        spec = PERSISTENT_VOLUME_CLAIM_SPEC.arranged({**claim["spec"], "storageClassName": name})
        await self.client.replace(self._claims.definition, {**claim, "spec": spec})
        return True

    def _first_free(self, ranked: list[Ranked]) -> Object | None:
        """The first volume of a heap that did not change since, and that no other claim gets."""
        while ranked:
            volume = heappop(ranked)[1]
            name = volume["metadata"]["name"]
            if name not in self._binding and self._volumes.get("", name) is volume:
                return volume
        return None

    def _waits_for_pod(self, class_name: str) -> bool:
        found = self._classes.get("", class_name)
        return found is not None and found.get("volumeBindingMode") == WAITS

    def _report_waiting(self, claim: Object) -> None:
        pods = [
            pod["metadata"]["name"]
            for pod in self._pods_of_claim.get(key_of(claim))
            if not is_finished(pod) and not pod["spec"].get("nodeName")
        ]
        if not pods:
            message = "waiting for first consumer to be created before binding"
            self._report(claim, "Normal", "WaitForFirstConsumer", message)
            return
        waiting = f"pods {','.join(pods)}" if len(pods) > 1 else f"pod {pods[0]}"
        self._report(claim, "Normal", "WaitForPodScheduled", f"waiting for {waiting} to be scheduled")

    async def _bind_to_named(self, claim: Object, name: str) -> None:
        volume = self._volumes.get("", name)
        if volume is not None:
            if is_reserved_for(volume, claim):
                await self._bind(volume, claim)
                return
            if volume["spec"].get("claimRef"):
                why = f'volume "{name}" already bound to a different claim.'
                self._report(claim, "Warning", "FailedBinding", why)
            elif why := refusal(volume, claim, self._keys):
                message = f'Cannot bind to requested volume "{name}": {why}'
                self._report(claim, "Warning", "VolumeMismatch", message)
            else:
                await self._bind(volume, claim)
                return
            self.queue.add_after(key_of(claim), self._period)
        await self._set_claim_phase(claim, "Pending", None)

    async def _bind(self, volume: Object, claim: Object) -> None:
        name = volume["metadata"]["name"]
        self._binding.add(name)
        try:
            await self._bind_volume(volume, claim)
            await self._bind_claim(name, claim)
        except (Conflict, NotFound):
            self._wake(class_of(claim, self._keys))  # the volume may be free for another claim
            raise
        finally:
            self._binding.discard(name)

    async def _bind_volume(self, volume: Object, claim: Object) -> None:
        reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
        changed = copied(volume)
        if reference.get("uid") != metadata["uid"] or not is_reserved_for(volume, claim):
            changed["spec"]["claimRef"] = self._reference_to(claim)
        if not is_reserved_for(volume, claim):
            _annotate(changed, self._keys.bound_by_controller, "yes")
        if changed != volume:
            volume = await self._replace_volume(changed)
        await self._set_volume_phase(volume, "Bound")

    async def _bind_claim(self, volume_name: str, claim: Object) -> None:
        changed = copied(claim)
        if changed["spec"].get("volumeName") != volume_name:
            changed["spec"]["volumeName"] = volume_name
            _annotate(changed, self._keys.bound_by_controller, "yes", replace=False)
        _annotate(changed, self._keys.bind_completed, "yes", replace=False)
        if changed != claim:
            claim = await self._replace_claim(changed)
        volume = self._volumes.get("", volume_name)
        if volume is not None:
            await self._set_claim_phase(claim, "Bound", volume)

    def _reference_to(self, claim: Object) -> Object:
        metadata = claim["metadata"]
        return {
            "apiVersion": self._claims.definition.api_version,
            "kind": self._claims.definition.kind,
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }

    async def _reconcile_bound(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if not name:
            await self._lose(
                claim,
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            )
            return
        volume = self._volumes.get("", name)
        if volume is None:
            await self._lose(
                claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            )
            return
        reference = volume["spec"].get("claimRef")
        if not reference or reference.get("uid") == claim["metadata"]["uid"]:
            await self._bind(volume, claim)
            return
        await self._lose(
            claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"
        )

    async def _lose(self, claim: Object, reason: str, message: str) -> None:
        if claim["status"].get("phase") == "Lost":
            return
        await self._set_claim_phase(claim, "Lost", None)
        self._report(claim, "Warning", reason, message)

    async def _reconcile_volume(self, volume: Object) -> None:
        volume = await self._protect(await self._record_migration(volume))
        name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._set_volume_phase(volume, "Available")
            return
        claim = self._claims.get(reference.get("namespace", ""), reference.get("name", ""))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            await self._release(volume)
            return
        bound_to = claim["spec"].get("volumeName", "")
        if bound_to == name:
            await self._set_volume_phase(volume, "Bound")
        elif not bound_to:
            self._expect_binding(volume, claim)
        elif (
            self._keys.provisioned_by in annotations_of(volume)
            and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        ):
            await self._release(volume)
        else:
            await self._unbind(volume)

    def _expect_binding(self, volume: Object, claim: Object) -> None:
        if not volume_modes_differ(claim, volume):
            self.queue.add(key_of(claim))
            return
        start, end = "Cannot bind PersistentVolume", "due to incompatible volumeMode."
        claim_name, volume_name = claim["metadata"]["name"], volume["metadata"]["name"]
        self._report_volume(
            volume,
            "Warning",
            "VolumeMismatch",
            f'{start} to requested PersistentVolumeClaim "{claim_name}" {end}',
        )
        message = f'{start} "{volume_name}" to requested PersistentVolumeClaim {end}'
        self._report(claim, "Warning", "VolumeMismatch", message)

    async def _record_migration(self, volume: Object) -> Object:
        """Record the driver of the volume, if another program provisioned it with a migrated plugin."""
        driver = self._migrated.get(annotations_of(volume).get(self._keys.provisioned_by, ""))
        if driver is None or annotations_of(volume).get(self._keys.migrated_to) == driver:
            return volume
        changed = copied(volume)
        _annotate(changed, self._keys.migrated_to, driver)
        return await self._replace_volume(changed)

    async def _protect(self, volume: Object) -> Object:
        """Keep the volume of a plugin until its storage is deleted, if its policy is Delete."""
        provisioner = annotations_of(volume).get(self._keys.provisioned_by, "")
        if not self._honours_policy or not provisioner.startswith(self._own_domain):
            return volume
        old: list[str] = volume["metadata"].get("finalizers") or []
        migrated = provisioner in self._migrated
        new = [one for one in old if migrated or one != self._keys.of_provisioner]
        if migrated or volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
            new = [one for one in new if one != self._keys.of_plugin]
        elif self._keys.of_plugin not in old and not is_terminating(volume):
            new.append(self._keys.of_plugin)
        return volume if new == old else await self._set_finalizers(volume, new)

    async def _set_finalizers(self, volume: Object, finalizers: list[str]) -> Object:
        changed = copied(volume)
        changed["metadata"]["finalizers"] = finalizers
        return await self._replace_volume(changed)

    async def _unbind(self, volume: Object) -> None:
        """Free a volume whose claim has another one; a reserved one stays reserved."""
        changed = copied(volume)
        if self._keys.bound_by_controller in annotations_of(volume):
            del changed["spec"]["claimRef"]
            del changed["metadata"]["annotations"][self._keys.bound_by_controller]
            if not changed["metadata"]["annotations"]:
                del changed["metadata"]["annotations"]
        else:
            changed["spec"]["claimRef"].pop("uid", None)
        if changed != volume:
            volume = await self._replace_volume(changed)
        await self._set_volume_phase(volume, "Available")

    async def _release(self, volume: Object) -> None:
        if volume["status"].get("phase") not in _RECLAIMED:
            volume = await self._set_volume_phase(volume, "Released")
        if annotations_of(volume).get(self._keys.migrated_to):
            return  # a driver does it
        match volume["spec"].get("persistentVolumeReclaimPolicy"):
            case "Recycle":
                await self._recycle(volume)
            case "Delete":
                await self._delete(volume)

    async def _recycle(self, volume: Object) -> None:
        (claim_key,) = _claim_of_volume(volume)
        users = sorted(
            "/".join(key_of(pod)) for pod in self._pods_of_claim.get(claim_key) if not is_finished(pod)
        )
        if users and self._claims.get(*claim_key) is None:
            message = f"Volume is used by pods: {','.join(users)}"
            self._report_volume(volume, "Normal", "VolumeFailedRecycle", message)
            self.queue.add_after(key_of(volume), self._period)
            return
        source = next((one for one in _RECYCLABLE if one in volume["spec"]), None)
        if source is None:
            await self._fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
            return
        pod = self._pods.get("default", _RECYCLER + volume["metadata"]["name"])
        if pod is None:
            name = volume["metadata"]["name"]
            if (left := self._recycle_at.get(name, 0.0) - trio.current_time()) > 0:
                self.queue.add_after(key_of(volume), left)
                return
            definition = self._pods.definition
            new = definition.schema.decode_object(_recycler(volume, source)).object
            await self.client.create(definition, "default", new)
        elif is_finished(pod) and not is_terminating(pod):
            await self._end_recycling(volume, pod)

    async def _end_recycling(self, volume: Object, pod: Object) -> None:
        options = DeleteOptions(uid=pod["metadata"]["uid"])
        await self.client.delete(self._pods.definition, *key_of(pod), options)
        if pod["status"]["phase"] == "Succeeded":
            self._recycle_at.pop(volume["metadata"]["name"], None)
            self._report_volume(volume, "Normal", "VolumeRecycled", "Volume recycled")
            await self._unbind(volume)
            return
        self._recycle_at[volume["metadata"]["name"]] = trio.current_time() + self._period
        why = pod["status"].get("message") or "pod failed, pod.Status.Message unknown"
        await self._fail(volume, "VolumeFailedRecycle", f"Recycle failed: failed to recycle volume: {why}")
        self.queue.add_after(key_of(volume), self._period)

    async def _delete(self, volume: Object) -> None:
        if is_terminating(volume) and not self._honours_policy:
            return
        provisioner = annotations_of(volume).get(self._keys.provisioned_by, "")
        if provisioner and provisioner != PROVISIONER and not provisioner.startswith(self._own_domain):
            return  # its provisioner deletes it
        if why := self._undeletable(volume, provisioner):
            await self._fail(volume, "VolumeFailedDelete", why)
            return
        finalizers: list[str] = volume["metadata"].get("finalizers") or []
        metadata = volume["metadata"]
        try:
            if self._keys.of_plugin in finalizers:
                kept = [one for one in finalizers if one != self._keys.of_plugin]
                await self._set_finalizers(volume, kept)
            options = DeleteOptions(uid=metadata["uid"])
            await self.client.delete(self._volumes.definition, "", metadata["name"], options)
        except NotFound:
            return  # the finalizer was all that kept it

    def _undeletable(self, volume: Object, provisioner: str) -> str:
        if provisioner == PROVISIONER:
            return ""
        if provisioner and provisioner != self._host_path:
            return f"no volume plugin matched name: {provisioner}"
        spec, name = volume["spec"], volume["metadata"]["name"]
        if "hostPath" in spec:
            path = spec["hostPath"]["path"]
            if _DELETABLE_PATH.search(path):
                return ""
            return f"host_path deleter only supports /tmp/.+ but received provided {path}"
        missing = "no volume plugin matched"
        if not _KNOWN_SOURCES.isdisjoint(spec):
            missing = "no deletable volume plugin matched"
        return f'error getting deleter volume plugin for volume "{name}": {missing}'

    async def _fail(self, volume: Object, reason: str, message: str) -> None:
        if volume["status"].get("phase") != "Failed":
            await self._set_volume_phase(volume, "Failed", message)
            self._report_volume(volume, "Warning", reason, message)

    async def _provision(self, claim: Object, class_name: str) -> None:
        storage_class = self._classes.get("", class_name)
        if storage_class is None:
            missing = f'storageclass.{self.names.group("storage")} "{class_name}" not found'
            self._report(claim, "Warning", "ProvisioningFailed", missing)
            return
        provisioner = storage_class["provisioner"]
        if provisioner == PROVISIONER:
            await self._provision_here(claim, storage_class)
        elif provisioner == self._host_path:
            await self._set_provisioner(claim, provisioner)
            why = f'provisioning in volume plugin "{provisioner}" is disabled'
            self._report(claim, "Warning", "ProvisioningFailed", f"Failed to create provisioner: {why}")
        elif provisioner.startswith(self._own_domain) and provisioner not in self._migrated:
            missing = f"no volume plugin matched name: {provisioner}"
            if provisioner.removeprefix(self._own_domain) in _NOT_PROVISIONABLE:
                missing = "no provisionable volume plugin matched"
            self._report(claim, "Warning", "ProvisioningFailed", missing)
        else:
            driver = self._migrated.get(provisioner) or provisioner
            await self._set_provisioner(claim, driver)
            message = (
                f'waiting for a volume to be created, either by external provisioner "{driver}" '
                "or manually created by system administrator"
            )
            self._report(claim, "Normal", "ExternalProvisioning", message)

    async def _provision_here(self, claim: Object, storage_class: Object) -> None:
        claim = await self._set_provisioner(claim, PROVISIONER)
        name = f"pvc-{claim['metadata']['uid']}"
        if self._volumes.get("", name) is not None:
            return  # its change triggers the binding
        try:
            volume = self._new_volume(claim, storage_class, name)
        except ProvisioningError as error:
            self._report(claim, "Warning", "ProvisioningFailed", str(error))
            return
        definition = self._volumes.definition
        try:
            await self.client.create(definition, "", definition.schema.decode_object(volume).object)
        except AlreadyExists:
            return
        message = f"Successfully provisioned volume {name} using {PROVISIONER}"
        self._report(claim, "Normal", "ProvisioningSucceeded", message)

    def _new_volume(self, claim: Object, storage_class: Object, name: str) -> Object:
        spec = claim["spec"]
        volume_spec: Object = {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "accessModes": spec["accessModes"],
            "claimRef": self._reference_to(claim),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
        }
        if options := storage_class.get("mountOptions"):
            volume_spec["mountOptions"] = options
        if terms := self._topology(claim, storage_class):
            volume_spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        annotations = {self._keys.bound_by_controller: "yes", self._keys.provisioned_by: PROVISIONER}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": volume_spec}

    def _topology(self, claim: Object, storage_class: Object) -> list[Object]:
        """Where the volume can be used: set by the class, or where its first pod is."""
        class_name, parameters = storage_class["metadata"]["name"], storage_class.get("parameters") or {}
        failed = f'Failed to provision volume with StorageClass "{class_name}": '
        if unknown := sorted(parameters.keys() - {TOPOLOGY}):
            raise ProvisioningError(
                f"{failed}there is no parameter {', '.join(unknown)}; only {TOPOLOGY}, a label of nodes"
            )
        selected = annotations_of(claim).get(self._keys.selected_node)
        node = None if selected is None else self._nodes.get("", selected)
        if selected is not None and node is None:
            raise ProvisioningError(f'Failed to get target node: node "{selected}" not found')
        if TOPOLOGY not in parameters:
            return [
                {"matchExpressions": [{**one, "operator": "In"} for one in term["matchLabelExpressions"]]}
                for term in storage_class.get("allowedTopologies") or ()
                if term.get("matchLabelExpressions")
            ]
        key = parameters[TOPOLOGY]
        if node is None:
            raise ProvisioningError(f"{failed}{TOPOLOGY} needs the volumeBindingMode {WAITS}")
        value = (node["metadata"].get("labels") or {}).get(key)
        if value is None:
            raise ProvisioningError(f'{failed}node "{selected}" has no label {key}')
        return [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]

    async def _set_provisioner(self, claim: Object, provisioner: str) -> Object:
        if annotations_of(claim).get(self._keys.provisioner) == provisioner:
            return claim
        changed = copied(claim)
        _annotate(changed, self._keys.beta_provisioner, provisioner)
        _annotate(changed, self._keys.provisioner, provisioner)
        return await self._replace_claim(changed)

    async def _set_claim_phase(self, claim: Object, phase: str, volume: Object | None) -> None:
        """The capacity of a bound claim stays: a file system may be smaller than its volume."""
        old = claim["status"]
        status = {part: value for part, value in old.items() if part not in ("accessModes", "capacity")}
        status["phase"] = phase
        current = "currentVolumeAttributesClassName"
        if volume is None:
            status.pop(current, None)
        else:
            if (old.get("phase"), phase) == ("Pending", "Bound") and attributes_class_of(volume):
                status[current] = attributes_class_of(volume)
            status["accessModes"] = volume["spec"]["accessModes"]
            becomes = old.get("phase") != phase
            held = volume["spec"].get("capacity") if becomes else old.get("capacity")
            if held is not None:
                status["capacity"] = held
        if status != old:
            await self._replace_claim({**claim, "status": status}, "status")

    async def _set_volume_phase(self, volume: Object, phase: str, message: str = "") -> Object:
        old = volume["status"]
        if old.get("phase") == phase:
            return volume
        status = {part: value for part, value in old.items() if part != "message"}
        status["phase"] = phase
        if message:
            status["message"] = message
        return await self._replace_volume({**volume, "status": status}, "status")

    async def _replace_claim(self, changed: Object, subresource: str = "") -> Object:
        """Store a claim; returns the stored object."""
        definition = self._claims.definition
        await self.client.replace(definition, definition.schema.decode_object(changed).object, subresource)
        return self._claims.get(*key_of(changed)) or changed

    async def _replace_volume(self, changed: Object, subresource: str = "") -> Object:
        definition = self._volumes.definition
        await self.client.replace(definition, definition.schema.decode_object(changed).object, subresource)
        return self._volumes.get(*key_of(changed)) or changed

    def _report(self, claim: Object, event_type: str, reason: str, message: str) -> None:
        self.recorder.event(self._claims.definition, claim, event_type, reason, message)

    def _report_volume(self, volume: Object, event_type: str, reason: str, message: str) -> None:
        self.recorder.event(self._volumes.definition, volume, event_type, reason, message)


def _recycler(volume: Object, source: str) -> Object:
    """The pod that deletes the content of a volume."""
    minimum, for_each = _RECYCLABLE[source]
    described = {part: value for part, value in volume["spec"][source].items() if part != "type"}
    return {
        "metadata": {"name": _RECYCLER + volume["metadata"]["name"]},
        "spec": {
            "activeDeadlineSeconds": max(minimum, capacity(volume) // _GI * for_each),
            "restartPolicy": "Never",
            "volumes": [{"name": "vol", source: described}],
            "containers": [
                {
                    "name": "pv-recycler",
                    "image": "pv-recycler",
                    "command": ["/bin/sh"],
                    "args": ["-c", _SCRUB],
                    "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
                }
            ],
        },
    }


def _annotate(stored: Object, key: str, value: str, *, replace: bool = True) -> None:
    annotations = stored["metadata"].setdefault("annotations", {})
    if replace or key not in annotations:
        annotations[key] = value


def _claim_of_volume(volume: Object) -> tuple[Key, ...]:
    reference = volume["spec"].get("claimRef")
    if not reference:
        return ()
    return ((reference.get("namespace", ""), reference.get("name", "")),)


def _volume_of_claim(claim: Object) -> tuple[str, ...]:
    name = claim["spec"].get("volumeName")
    return (name,) if name else ()
