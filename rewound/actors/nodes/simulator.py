"""The controller of all simulated nodes: registers them, renews their leases, and advances their pods.

One loop serves every node. Its keys are pods, Node objects, and groups of leases; each is due when something about it
changes, or at a time that the queue keeps: nothing is polled, and an idle cluster costs only the renewals. Each node
writes as itself (`system:node:NAME`), as a kubelet would, limited by the Node authorizer if that is on. Changes by
Stages other than statuses are written by the controller's own account, as kwok does. The next step of a pod is a
function of the stored pod and the time (`pod_status.next_step`), so a restart continues where it was.

Simulated are Node objects with the annotation `sim/node: "true"` or kwok's, and with `--nodes` also those whose
conditions nobody has reported when they appear; they get the annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final

from rewound.actors.controllers.client import Client, run_concurrently
from rewound.actors.errors import AlreadyExists, NotFound, RequestError
from rewound.actors.identity import AUTHENTICATED, NODE_PREFIX, NODES, User
from rewound.actors.kinds.core.simulated_node import SIMULATED, is_simulated
from rewound.actors.kinds.values.times import micros_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.nodes.admission import Admission, PodAdmission, Rejection
from rewound.actors.nodes.behaviour import Behaviour, behaviour_of
from rewound.actors.nodes.containers import WARNING, PodEvent
from rewound.actors.nodes.images import bad_images_of
from rewound.actors.nodes.node_status import (
    CLOCK_SKEW,
    LAG,
    address_of,
    has_agent,
    is_ready,
    is_stopped,
    new_lease,
    new_node,
    reported_status,
    runtime_handlers_of,
    seconds_of,
)
from rewound.actors.nodes.pod_status import (
    Placement,
    Step,
    failed_step,
    failing_hooks,
    images_of,
    next_step,
    rejected_status,
    seconds_to_deletion,
    stopped_status,
    stopping_events,
)
from rewound.actors.nodes.pressure import (
    EVICTION_SECONDS,
    next_eviction,
    pressures_of,
    rejection_under_pressure,
)
from rewound.actors.nodes.references import (
    CLAIMS,
    CONFIG_MAPS,
    DEVICE_CLAIMS,
    RUNTIME_CLASSES,
    SECRETS,
    Reference,
)
from rewound.actors.nodes.static_pods import CHECK_SECONDS, StaticPods
from rewound.actors.nodes.termination import takes_time
from rewound.actors.runtime.steps import Steps
from rewound.actors.runtime.turns import OverTime, in_turns
from rewound.actors.stages.controller import NODE, POD, StageBook, empty_book
from rewound.actors.stages.player import StagePlayer, delete
from rewound.actors.stages.stage import StageSet
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    DYNAMIC_ALLOCATION,
    STRUCTURED_DEVICES,
    TERMINAL_WHEN_DELETED,
    V1_25,
)
from rewound.actors.workloads.cache import CachedType, Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import is_finished, node_of
from rewound.actors.workloads.recorder import Recorder
from rewound.actors.workloads.volume_attachment import Attachables, AttachDetach, attached_to, is_requested
from rewound.journal.records import Event

NAME: Final = "simulated-nodes"
RENEW_SECONDS: Final = 10.0  # of a small cluster, at most: four times within the grace period of a node
# Renewals a second up to which nodes keep to that; with more nodes, each renews later, within its grace period.
MOST_RENEWALS: Final = 33
REPORT_SECONDS: Final = 10.0  # after which a node reports the images that it has pulled
RETRY_SECONDS: Final = 10.0  # after which a node tries again to create a mirror pod that was refused
GROUP_SIZE: Final = 64  # leases that are renewed together: as many as one commit should carry
LEASES: Final = "/leases"  # takes the place of a namespace in keys; no namespace can have this name
PRESSURES: Final = "/pressures"  # likewise
ATTACHMENTS: Final = "/attachments"  # likewise
STATIC_PODS: Final = "/static-pods"  # likewise; without a name for the folder of manifests
FEW_PODS: Final = 500  # up to which nodes report images, and by default record all Events about containers
PREEMPTED: Final = Rejection("Preempting", "Preempted in order to admit critical pod")
FOR_CRITICAL: Final = "Pod was preempted by Kubelet to accommodate a critical pod."
MOST_SECONDS: Final = 5.0  # of processor time for one look at a pod, a thousand times what most take
_SMALLER: Final = "create it with fewer containers, volumes and references to ConfigMaps and Secrets"
_EVENTS: Final = 16  # about containers between two pauses
_POD_ADDRESSES: Final = IPv4Address("10.244.0.1"), IPv4Address("10.255.255.254")
_NODE_ADDRESSES: Final = IPv4Address("192.168.0.1"), IPv4Address("192.168.255.254")
_MOST_NETWORKS: Final = 100_000  # of nodes whose next address is known; then all are forgotten


@dataclass(slots=True)
class SimulatedNode:
    name: str
    client: Client
    group: int  # of leases
    recorder: Recorder | None = None  # from the first Event on
    address: str = ""
    runs: bool = False
    evicts: bool = False  # whether it is under pressure
    capacity: Object | None = None  # as it was when the node last reported
    images: set[str] = field(default_factory=set)  # that its containers have used
    reported_images: int = 0  # how many of them it has reported, or is about to
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)  # attachable volumes by uid of the pod
    waiting: set[Key] = field(default_factory=set)  # pods that wait until volumes are attached
    lag: float = 0.0  # seconds after which it notices a change of a pod
    skew: int = 0  # microseconds by which its clock is wrong


class SimulatedNodes(WorkloadController):
    name, account = NAME, NAME

    def __init__(
        self,
        parts: Parts,
        count: int | None = None,
        version: str = V1_25.patch_release,
        stages: StageBook | None = None,
        manifests: Path | None = None,
    ) -> None:
        """`count` is the number of nodes to create; None: only annotated Node objects are simulated.

        `version` is that of their kubelets. `stages`: as the controller of Stages reads them; None: it does not run.
        `manifests`: the folder of static pods. Raises ValueError if there is none.
        """
        super().__init__(parts)
        self._context = parts.context
        self._version = version
        self._grace = parts.context.workloads.node_monitor_grace_period
        self._features = parts.context.features
        self._node_events = parts.context.workloads.node_events
        self._events = parts.events
        self._takes_all = count is not None
        self._missing = {f"node-{number}" for number in range(count or 0)}  # still to be created
        self._node_objects = self.keyed_by("nodes")
        self._pods = parts.cache.collection("pods")
        self._by_node = self._pods.index(node_of)
        self._static = StaticPods(manifests, self.names, self._pods.definition)
        self._pods.listen(self._pod_changed)
        self._leases = parts.cache.collection(f"leases.{self.names.group('coordination')}")
        self._attaches = parts.context.enabled is None or AttachDetach.name in parts.context.enabled
        self._attachables = Attachables.of(parts)
        self._attachments = parts.cache.collection(f"volumeattachments.{self.names.group('storage')}")
        self._attachments.listen(self._attachment_changed)
        self._managed = self.names.key("controller-managed-attach-detach", "volumes")
        self._nodes: dict[str, SimulatedNode] = {}
        self._groups: list[set[str]] = []
        self._pod_addresses = Addresses(*_POD_ADDRESSES)
        self._node_addresses = Addresses(*_NODE_ADDRESSES)
        self._stages = stages if stages is not None else empty_book()
        self._stages.follow(self._stages_changed)
        self._player = StagePlayer(parts.context, self.client, self.recorder, version)
        self._writing: dict[Key, Object] = {}  # the status being written, by pod
        self._admission = PodAdmission(self.names, self._features, self._running_pods)
        self._looked: dict[Key, int] = {}  # when a pod that will change by itself was last looked at
        registry = parts.context.registry
        group = self.names.group("resource")
        self._device_group = group if {DYNAMIC_ALLOCATION, STRUCTURED_DEVICES} <= self._features else ""
        claims = [(DEVICE_CLAIMS, f"{DEVICE_CLAIMS}.{group}")] if self._device_group else []
        self._type_ids = {
            resource: parts.context.journal.type_id(registry.current.storage(type_name).type_name)
            for resource, type_name in (
                (SECRETS, SECRETS),
                (CONFIG_MAPS, CONFIG_MAPS),
                (CLAIMS, CLAIMS),
                (RUNTIME_CLASSES, f"{RUNTIME_CLASSES}.{self.names.group('node')}"),
                *claims,
            )
        }
        self._resources = {type_id: resource for resource, type_id in self._type_ids.items()}
        self.observed_types = frozenset(self._resources)
        self._awaited: dict[Reference, set[Key]] = {}  # the pods that wait for an object
        self._waits: dict[Key, frozenset[Reference]] = {}  # the same by pod
        # When deleted pods whose containers are stopping were last looked at, by uid.
        self._stopping: dict[str, int] = {}
        self._hooks: dict[str, dict[str, int]] = {}  # postStart hooks that run, by uid of the pod
        self._assigned: dict[str, str] = {}  # addresses by uid of pods, until these are deleted
        self._reported: dict[Key, Sequence[str]] = {}  # problems of the annotations of pods

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._reset()
        for pod in self._pods:
            self._pod_addresses.use((pod.get("status") or {}).get("podIP"))
        for node in self._node_objects:
            self._node_addresses.use(address_of(node))
        await self._stages.loaded()
        await super().catch_up()
        for attachment in self._attachments:
            self._attachment_changed(None, attachment)
        if self._static.folder is not None:
            self.queue.add((STATIC_PODS, ""))
        for name in sorted(self._missing, key=lambda name: int(name.rpartition("-")[2])):
            self.queue.add(("", name))

    def _reset(self) -> None:
        """Forget the state of an earlier run of the loop: another process may have led in between."""
        self._nodes.clear()
        self._groups.clear()
        self._player.reset()
        self._assigned.clear()
        self._reported.clear()
        self._looked.clear()
        self._admission.forget()
        self._awaited.clear()
        self._waits.clear()
        self._stopping.clear()
        self._hooks.clear()
        self._pod_addresses = Addresses(*_POD_ADDRESSES)
        self._node_addresses = Addresses(*_NODE_ADDRESSES)

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if namespace == LEASES:
            await self._renew(int(name))
        elif namespace == PRESSURES:
            await self._evict(name)
        elif namespace == ATTACHMENTS:
            await self._set_attached(name)
        elif namespace == STATIC_PODS:
            await (self._mirror(name) if name else self._read_manifests())
        elif namespace:
            await self._reconcile_pod(key)
        else:
            await self._reconcile_node(name)

    async def _reconcile_node(self, name: str) -> None:
        node = self._node_objects.get("", name)
        if node is None:
            if (gone := self._nodes.get(name)) is not None:
                self._node_addresses.free(gone.address)
            self._forget(name)
            if name in self._missing:
                await self._create(name)
            return
        self._missing.discard(name)
        if not is_simulated(node):
            self._forget(name)
            if self._takes_all and not has_agent(node):
                await self._take_over(node)
            return
        known = self._nodes.get(name) or self._register(name)
        for waiting in known.waiting:
            self.queue.add(waiting)
        known.waiting.clear()
        known.lag, known.skew = seconds_of(node, LAG), round(seconds_of(node, CLOCK_SKEW) * 1_000_000)
        if is_stopped(node):
            known.runs = False
            return
        if found := self._stages.of(NODE):
            if not (node.get("status") or {}).get("phase") and is_ready(node):
                await self._set_phase(node, known)  # kwok's Stages of running nodes look at it
            await self._play(self._node_objects, node, found, known)
        else:
            await self._report(node, known)
        if pressures_of(node) and not known.evicts:
            known.evicts = True
            self.queue.add((PRESSURES, name))
        if not known.runs:  # only now: failures above are retried
            known.runs = True
            for pod in self._by_node.get(name):
                self.queue.add(key_of(pod))
            await self._renew_lease(known)
            self._add_mirrors(name)

    async def _create(self, name: str) -> None:
        definition = self._node_objects.definition
        address = self._node_addresses.take()
        made = new_node(name, address, self.names, self._version, self.now(), self._features)
        try:
            await self._client_of(name).create(definition, "", definition.schema.decode_object(made).object)
        except RequestError as refused:
            self._node_addresses.free(address)
            if not isinstance(refused, AlreadyExists):
                raise
        self._missing.discard(name)

    async def _take_over(self, node: Object) -> None:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        patch = {"metadata": {"uid": uid, "annotations": {SIMULATED: "true"}}}
        await self._client_of(name).patch(self._node_objects.definition, "", name, patch)

    async def _report(self, node: Object, known: SimulatedNode) -> None:
        address = address_of(node) or known.address or self._node_addresses.take()
        known.address = address
        before, known.capacity = known.capacity, (node.get("status") or {}).get("capacity")
        known.reported_images = len(known.images)
        volumes = {name for names in known.uses.values() for name in names}
        status = reported_status(
            node,
            address,
            self._version,
            self.now() + known.skew,
            before,
            images=known.images,
            features=self._features,
            volumes=volumes,
        )
        if status != node.get("status"):
            changed = {**node, "status": status}
            await known.client.replace(self._node_objects.definition, changed, "status")

    async def _set_phase(self, node: Object, known: SimulatedNode) -> None:
        patch = {"status": {"phase": "Running"}}
        await known.client.patch(self._node_objects.definition, "", known.name, patch, "merge", "status")

    def _register(self, name: str) -> SimulatedNode:
        if not self._groups or len(self._groups[-1]) >= GROUP_SIZE:
            self._groups.append(set())
            first = self._renew_seconds() * (0.5 + self.random.random() / 2)  # spread: not all groups at once
            self.queue.add_after((LEASES, str(len(self._groups) - 1)), first)
        group = len(self._groups) - 1
        self._groups[group].add(name)
        known = SimulatedNode(name, self._client_of(name), group)
        for pod in self._by_node.get(name):
            known.images.update(images_of(pod))
            if "startTime" in (pod.get("status") or {}) and not is_finished(pod):
                known.uses |= self._uses(pod)
        self._nodes[name] = known
        return known

    def _forget(self, name: str) -> None:
        known = self._nodes.pop(name, None)
        self._admission.forget(name)
        if known is not None:
            self._groups[known.group].discard(name)

    def _client_of(self, node: str) -> Client:
        user = User(f"{NODE_PREFIX}{node}", groups=(NODES, AUTHENTICATED))
        context = self._context
        authorizer = context.authorizer if context.authorizes_nodes else None
        return Client(context.directory, context.write_contexts, user, "kubelet", authorizer)

    def _renew_seconds(self) -> float:
        shortest = min(RENEW_SECONDS, self._grace / 4)
        return min(max(shortest, len(self._nodes) / MOST_RENEWALS), max(shortest, self._grace * 0.75))

    async def _renew(self, group: int) -> None:
        if group >= len(self._groups):
            return  # of an earlier run of the loop
        self.queue.add_after((LEASES, str(group)), self._renew_seconds())
        members = sorted(self._groups[group])
        running = [known for name in members if (known := self._nodes.get(name)) is not None and known.runs]
        errors = await run_concurrently(self._renew_lease, running)
        if errors:
            raise errors[0]

    async def _renew_lease(self, known: SimulatedNode) -> None:
        namespace, text = self.names.node_lease_namespace, micros_text(self.now() + known.skew)
        definition, lease = self._leases.definition, self._leases.get(namespace, known.name)
        if lease is not None:
            renewed = {**lease, "spec": {**lease["spec"], "renewTime": text}}
            await known.client.replace(definition, renewed)
        elif (node := self._node_objects.get("", known.name)) is not None:
            new = definition.schema.decode_object(new_lease(node, text)).object
            await known.client.create(definition, namespace, new)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._pod_addresses.free((old.get("status") or {}).get("podIP"))
            self._pod_addresses.free(self._assigned.pop(old["metadata"]["uid"], None))
            self._player.forget(self._pods.definition, key_of(old))
            self._reported.pop(key_of(old), None)
            self._looked.pop(key_of(old), None)
            self._wait_for(key_of(old))
            self._stopping.pop(old["metadata"]["uid"], None)
            self._hooks.pop(old["metadata"]["uid"], None)
            self._admission.pod_ended(old)
            self._release(old)
            self._mirror_gone(old)
        elif new["spec"].get("nodeName") in self._nodes:
            key = key_of(new)
            if is_finished(new):
                self._admission.pod_ended(new)
                self._release(new)
            else:
                self._admission.pod_changed(new)
            written = old is not None and old["status"] != new["status"] == self._writing.get(key)
            if not written:  # the node itself has just written this; all else may be relevant
                lag = self._nodes[new["spec"]["nodeName"]].lag
                self.queue.add_after(key, lag) if lag > 0 else self.queue.add(key)

    async def _reconcile_pod(self, key: Key) -> None:
        pod = self._pods.get(*key)
        known = self._nodes.get(pod["spec"].get("nodeName", "")) if pod is not None else None
        if pod is None or known is None or not known.runs:
            return
        if found := self._stages.of(POD):
            await self._play(self._pods, pod, found, known)
        elif "deletionTimestamp" in pod["metadata"]:
            if self._mirrors(pod):
                self._add_mirrors(known.name)
            else:
                await self._end(pod, known)
        else:
            await self._move_on(pod, known)

    async def _move_on(self, pod: Object, known: SimulatedNode) -> None:
        behaviour = behaviour_of(pod, self.names)
        self._report_problems(pod, behaviour.problems)
        key, now = key_of(pod), self.now()
        placement = self._placement(pod, known)
        is_new = "startTime" not in (pod.get("status") or {}) and behaviour.phase != "Hold"
        if is_new and (status := self._static.recall(pod)) is not None:
            self._pod_addresses.use(status.get("podIP"))
            await self._take(Step(status), pod, known)
            self.queue.add(key)
            return
        if is_new and not is_finished(pod) and not await self._admits(pod, known):
            return
        placement.unattached = await self._use(pod, known)
        since = self._looked.pop(key, None)
        try:
            step = await in_turns(next_step(pod, behaviour, placement, now, since), MOST_SECONDS)
        except OverTime as wrong:
            self._give_up(pod, wrong)
            return
        if placement.hooks:
            self._hooks[pod["metadata"]["uid"]] = placement.hooks
        else:
            self._hooks.pop(pod["metadata"]["uid"], None)
        if step.wake is not None:
            self._looked[key] = now
            self.queue.add_after(key, step.wake)
        self._wait_for(key, step.missing)
        if len(known.images) > known.reported_images and len(self._pods) < FEW_PODS:
            known.reported_images = len(known.images)
            self.queue.add_after(("", known.name), REPORT_SECONDS)
        await self._take(step, pod, known)

    def _give_up(self, pod: Object, wrong: OverTime) -> None:
        """Leave a pod as it is until it changes: one look at it takes too long."""
        message = f"the simulated node does not run the pod, because {wrong} to look at it once: {_SMALLER}"
        self.recorder.event(self._pods.definition, pod, WARNING, "TooCostly", message)

    # Static pods

    async def _read_manifests(self) -> None:
        self.queue.add_after((STATIC_PODS, ""), CHECK_SECONDS)
        if await self._static.read():
            for name in self._nodes:
                self.queue.add((STATIC_PODS, name))

    def _add_mirrors(self, node: str) -> None:
        if self._static.folder is not None:
            self.queue.add((STATIC_PODS, node))

    def _mirrors(self, pod: Object) -> bool:
        """Whether a pod is of a manifest that is there, or may be: its containers run on when it is deleted."""
        if self._static.folder is None or not self._static.is_mirror(pod):
            return False
        node = self._node_objects.get("", pod["spec"].get("nodeName", ""))
        if node is None:
            return False
        if not self._static.is_read:
            return True
        wanted = self._static.of_node(node, self._node_objects.definition, 0)
        return self._static.is_current(pod, wanted.get(key_of(pod)))

    def _mirror_gone(self, pod: Object) -> None:
        if self._mirrors(pod):
            self._static.remember(pod)
        for name in node_of(pod):
            self._add_mirrors(name)

    async def _mirror(self, name: str) -> None:
        """Create the mirror pods of a node that are missing, and end those whose manifest has gone or changed."""
        node, known = self._node_objects.get("", name), self._nodes.get(name)
        if node is None or known is None or not known.runs or not self._static.is_read:
            return
        definition = self._pods.definition
        wanted = self._static.of_node(node, self._node_objects.definition, self.now())
        for pod in tuple(self._by_node.get(name)):
            if not self._static.is_mirror(pod):
                continue
            if self._static.is_current(pod, wanted.get(key_of(pod))):
                if "deletionTimestamp" not in pod["metadata"]:
                    continue
                await delete(definition, pod, known.client)
            elif "deletionTimestamp" not in pod["metadata"]:
                await self._delete_mirror(pod, known)
        for (namespace, pod_name), made in wanted.items():
            if self._pods.get(namespace, pod_name) is None:
                try:
                    await known.client.create(definition, namespace, made)
                except RequestError as refused:
                    self._static.refused((namespace, pod_name), refused.message)
                    self.queue.add_after((STATIC_PODS, name), RETRY_SECONDS)

    async def _delete_mirror(self, pod: Object, known: SimulatedNode) -> None:
        options = DeleteOptions(uid=pod["metadata"]["uid"])
        try:
            await known.client.delete(self._pods.definition, *key_of(pod), options)
        except NotFound:
            return

    # Volumes that have to be attached

    def _uses(self, pod: Object) -> dict[str, tuple[str, ...]]:
        names = tuple(one.name for one in self._attachables.of_pod(pod))
        return {pod["metadata"]["uid"]: names} if names else {}

    async def _use(self, pod: Object, known: SimulatedNode) -> frozenset[str]:
        """Report the volumes of an admitted pod as in use; returns those of them that are not attached yet."""
        found, node = self._attachables.of_pod(pod), self._node_objects.get("", known.name)
        if not found or node is None or is_finished(pod):
            return frozenset()
        uid, names = pod["metadata"]["uid"], tuple(one.name for one in found)
        if known.uses.get(uid) != names:
            known.uses[uid] = names
            self.queue.add(("", known.name))
        if not self._attaches:
            return frozenset()
        if self._managed not in (node["metadata"].get("annotations") or {}):
            patch = {"metadata": {"uid": node["metadata"]["uid"], "annotations": {self._managed: "true"}}}
            await self._client_of(known.name).patch(self._node_objects.definition, "", known.name, patch)
        attached = attached_to(node)
        missing = frozenset(one.volume for one in found if one.name not in attached)
        if missing:
            known.waiting.add(key_of(pod))
        return missing

    def _release(self, pod: Object) -> None:
        """Nothing of a pod runs any more: its node does not use its volumes."""
        known = self._nodes.get(pod["spec"].get("nodeName", ""))
        if known is not None and known.uses.pop(pod["metadata"]["uid"], None) is not None:
            self.queue.add(("", known.name))

    def _attachment_changed(self, _: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"]["nodeName"] in self._nodes:
            self.queue.add((ATTACHMENTS, new["metadata"]["name"]))

    async def _set_attached(self, name: str) -> None:
        """Attach a volume as its driver would, if the attach-detach controller asks for it."""
        attachment = self._attachments.get("", name)
        if attachment is None or "deletionTimestamp" in attachment["metadata"] or not is_requested(name):
            return
        status = attachment.get("status") or {}
        if not status.get("attached") and "attachError" not in status:
            patch = {"metadata": {"uid": attachment["metadata"]["uid"]}, "status": {"attached": True}}
            await self.client.patch(self._attachments.definition, "", name, patch, subresource="status")

    def _placement(self, pod: Object, known: SimulatedNode) -> Placement:
        node = self._node_objects.get("", known.name)
        return Placement(
            self._address_of(known),
            partial(self._pod_address, pod),
            self._find,
            self._features,
            bad_images=bad_images_of(node) if node is not None else (),
            images=known.images,
            hooks=self._hooks.get(pod["metadata"]["uid"], {}),
            runtime_handlers=runtime_handlers_of(node) if node is not None else None,
            device_group=self._device_group,
            has_events=self._node_events != "none",
            resize_problem=partial(self._resize_problem, pod, known),
        )

    def _resize_problem(self, pod: Object, known: SimulatedNode) -> Rejection | None:
        node = self._node_objects.get("", known.name)
        if node is None:
            return None
        return self._admission.resize_problem(pod, node)

    def _find(self, reference: Reference) -> Object | None:
        with self._context.journal.read() as view:
            row = view.get(self._type_ids[reference.resource], reference.namespace, reference.name)
        return None if row is None else decode(row.body)

    def _wait_for(self, key: Key, missing: frozenset[Reference] = frozenset()) -> None:
        """Look again at a pod when one of these objects changes, and none else."""
        for reference in self._waits.pop(key, ()):
            self._awaited[reference].discard(key)
            if not self._awaited[reference]:
                del self._awaited[reference]
        if missing:
            self._waits[key] = missing
            for reference in missing:
                self._awaited.setdefault(reference, set()).add(key)

    def observe(self, events: Sequence[Event]) -> None:
        if self._awaited:
            for event in events:
                resource = self._resources.get(event.type_id)  # a batch also has events of other types
                if resource is not None:
                    changed = Reference(resource, event.namespace, event.name)
                    for key in self._awaited.get(changed, ()):
                        self.queue.add(key)

    async def _admits(self, pod: Object, known: SimulatedNode) -> bool:
        """Whether a node admits a new pod; if not, the pod fails, or it has changed and is looked at again."""
        facts = await in_turns(self._admission.facts(pod))
        if self._pods.get(*key_of(pod)) is not pod:
            return False
        node = self._node_objects.get("", known.name)
        if node is None:
            return False
        rejection = rejection_under_pressure(pod, node, self.names)
        verdict = self._admission.admit(facts, node) if rejection is None else Admission(rejection)
        if (rejection := verdict.rejection) is not None:
            status = rejected_status(pod, rejection, self._features, self.now())
            await self._take(Step(status, None, [PodEvent(WARNING, *rejection)]), pod, known)
            return False
        for victim in verdict.preempted:
            around = self._placement(victim, known)
            steps = failed_step(victim, PREEMPTED, FOR_CRITICAL, around, self.now())
            await self._take(await in_turns(steps), victim, known)
        return True

    async def _evict(self, name: str) -> None:
        """Evict the next pod of a node under pressure."""
        node, known = self._node_objects.get("", name), self._nodes.get(name)
        if node is None or known is None:
            return
        pressures = pressures_of(node) if known.runs else ()
        known.evicts = bool(pressures)
        if not pressures:
            return
        self.queue.add_after((PRESSURES, name), EVICTION_SECONDS)
        chosen = next_eviction(self._running_pods(name), pressures)
        if chosen is not None:
            pod, reason = chosen
            around = self._placement(pod, known)
            steps = failed_step(pod, reason, reason.message, around, self.now())
            await self._take(await in_turns(steps), pod, known)

    def _running_pods(self, node: str) -> Iterable[Object]:
        """The pods that a node has admitted: they have a startTime."""
        for pod in self._by_node.get(node):
            if "startTime" in (pod.get("status") or {}) and not is_finished(pod):
                yield pod

    async def _take(self, step: Step, pod: Object, known: SimulatedNode) -> None:
        """Write a step: the status of a pod, and Events about it."""
        await self._record(step.events, pod, known)
        if step.status is None:
            return
        key = key_of(pod)
        self._writing[key] = step.status
        try:
            await known.client.replace(self._pods.definition, {**pod, "status": step.status}, "status")
        except NotFound:
            pass
        finally:
            self._writing.pop(key, None)

    async def _record(self, events: Sequence[PodEvent], pod: Object, known: SimulatedNode) -> None:
        if events:
            await in_turns(self._recorded(events, pod, known))

    def _recorded(self, events: Sequence[PodEvent], pod: Object, known: SimulatedNode) -> Steps[None]:
        mode = self._node_events or ("all" if len(self._pods) < FEW_PODS else "failures")
        for number, event in enumerate(events, 1):
            if number % _EVENTS == 0:
                yield
            if mode == "all" or (mode == "failures" and event.type == WARNING):
                if known.recorder is None:
                    known.recorder = Recorder(self._events, known.client, "kubelet", known.name)
                known.recorder.event(self._pods.definition, pod, *event)

    def _report_problems(self, pod: Object, problems: Sequence[str]) -> None:
        """Record an Event for each, once: when a pod starts with it or gets it."""
        key = key_of(pod)
        before = self._reported.pop(key, ())
        if problems:
            self._reported[key] = problems
        for problem in problems:
            if problem not in before:
                self.recorder.event(self._pods.definition, pod, "Warning", "InvalidAnnotation", problem)

    def _pod_address(self, pod: Object) -> str:
        """The address of a pod, or until it has one always the same candidate: a write of the status may fail."""
        uid, current = pod["metadata"]["uid"], (pod.get("status") or {}).get("podIP")
        if current:
            return str(current)
        if uid not in self._assigned:
            stored = self._pods.get(*key_of(pod))
            node = self._node_objects.get("", pod["spec"].get("nodeName", ""))
            address = self._pod_addresses.take((node or {}).get("spec", {}).get("podCIDRs") or ())
            if stored is None or stored["metadata"]["uid"] != uid:
                self._pod_addresses.free(address)  # it is gone
                return address
            self._assigned[uid] = address
        return self._assigned[uid]

    async def _end(self, pod: Object, known: SimulatedNode) -> None:
        behaviour, now = behaviour_of(pod, self.names), self.now()
        seconds = seconds_to_deletion(pod, behaviour, self._features, now)
        if seconds is None:
            return
        uid = pod["metadata"]["uid"]
        looked = self._stopping.get(uid)
        if looked is None:
            await self._record(stopping_events(pod), pod, known)
        self._stopping[uid] = now
        for due, event in failing_hooks(pod, behaviour, self._features):
            if due > now:
                seconds = min(seconds, (due - now) / 1_000_000)
            elif looked is None or due > looked:
                await self._record([event], pod, known)
        if seconds:
            self.queue.add_after(key_of(pod), seconds)
            return
        await self._stop(pod, behaviour, known)
        await delete(self._pods.definition, pod, known.client)

    async def _stop(self, pod: Object, behaviour: Behaviour, known: SimulatedNode) -> None:
        """Write how the containers of a deleted pod ended, unless it goes at once and nobody would see it."""
        stays = pod["metadata"].get("finalizers") and TERMINAL_WHEN_DELETED in self._features
        if stays or takes_time(pod["spec"], behaviour):
            status = await in_turns(stopped_status(pod, behaviour, self._placement(pod, known), self.now()))
            if status is not None:
                await self._take(Step(status), pod, known)

    def _address_of(self, known: SimulatedNode) -> str:
        if not known.address:
            node = self._node_objects.get("", known.name)
            known.address = address_of(node) if node is not None else ""
        return known.address

    def _stages_changed(self) -> None:
        self._player.reset()
        for name in self._nodes:
            self.queue.add(("", name))
            for pod in self._by_node.get(name):
                self.queue.add(key_of(pod))

    async def _play(
        self, collection: CachedType, stored: Object, stages: StageSet, known: SimulatedNode
    ) -> None:
        functions = self._functions(stored, known)
        seconds = await self._player.play(stages, collection.definition, stored, known.client, functions)
        if seconds is not None:
            self.queue.add_after(key_of(stored), seconds)

    def _functions(self, stored: Object, known: SimulatedNode) -> dict[str, Any]:
        def pod_address(node: str = "", host_network: bool = False, *_: object) -> str:
            if host_network:
                return self._address_of(known)
            return self._pod_address(stored)

        def node_address(*_: object) -> str:
            if not known.address:
                known.address = self._address_of(known) or self._node_addresses.take()
            return known.address

        return {
            "NodeName": lambda: known.name,
            "NodePort": lambda: 0,
            "NodeIP": node_address,
            "NodeIPWith": node_address,
            "NodeIPsWith": lambda *_: [node_address()],
            "PodIP": pod_address,
            "PodIPWith": pod_address,
            "PodIPsWith": lambda *given: [pod_address(*given)],
        }


class Addresses:
    """Free addresses of a range, in order; a freed one is reused after all others."""

    def __init__(self, first: IPv4Address, last: IPv4Address) -> None:
        self._first, self._last = int(first), int(last)
        self._used: set[str] = set()
        self._order = _in_turn(self._first, self._last)
        self._of_networks: dict[str, Iterator[str]] = {}

    def take(self, networks: Sequence[str] = ()) -> str:
        """The next address; that of the first IPv4 network in the list, as long as it has any left."""
        network = next(filter(None, map(_ipv4_network, networks)), None)
        if network is not None and (address := self._take_from(network)) is not None:
            return address
        for _ in range(len(self._used) + 1):
            address = next(self._order)
            if address not in self._used:
                self._used.add(address)
                return address
        raise AssertionError("a range has more addresses than are in use")

    def _take_from(self, network: IPv4Network) -> str | None:
        """Without the first two addresses, of the network and its gateway, and the last, for all of it."""
        first, last = int(network.network_address) + 2, int(network.broadcast_address) - 1
        if first > last:
            return None
        order = self._of_networks.get(str(network))
        if order is None:
            if len(self._of_networks) >= _MOST_NETWORKS:
                self._of_networks.clear()
            order = self._of_networks[str(network)] = _in_turn(first, last)
        for _ in range(min(last - first, len(self._used)) + 1):
            address = next(order)
            if address not in self._used:
                self._used.add(address)
                return address
        return None

    def use(self, address: str | None) -> None:
        if address:
            self._used.add(address)

    def free(self, address: str | None) -> None:
        if address:
            self._used.discard(address)


def _ipv4_network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text, strict=False)
    except ValueError:
        return None  # of another address family, or in a form that Python does not read


def _in_turn(first: int, last: int) -> Iterator[str]:
    while True:
        for number in range(first, last + 1):
            yield str(IPv4Address(number))
