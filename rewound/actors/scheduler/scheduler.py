"""The scheduler: it finds a node for every pod that has none, as the kube-scheduler of its version does.

One pass makes all decisions in order (`_attempt`), so that each knows of those before it. A decision takes turns on the
event loop, and stands if the chosen node is still feasible at its end. The resulting writes are then concurrent, so
that one commit carries many bindings. The work queue has the key PASS for the pass, and the keys of the pods with
something to write. Nothing runs while no waiting pod can be helped.

After a restart the objects have the whole state: pods without a node wait, those with one count on it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import trio

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import NotFound, RequestError
from rewound.actors.golang.json import dumps
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import AUTHENTICATED, User
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime import turns
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.scheduler.configuration import SchedulerConfiguration, default_configuration
from rewound.actors.scheduler.device_binding import POLL, DeviceBinding
from rewound.actors.scheduler.device_objects import DeviceObjects, devices_are_allocated
from rewound.actors.scheduler.dynamic_resources import (
    DEVICE_CLAIM,
    DEVICE_CLASS,
    DEVICE_SLICE,
    DEVICES,
    ReservedDevices,
)
from rewound.actors.scheduler.evaluation import (
    Diagnosis,
    Evaluation,
    Evaluations,
    NoNodes,
    Outdated,
    Profile,
    Steps,
    TooCostly,
    Unschedulable,
)
from rewound.actors.scheduler.explanation import ANSWERED, IN_ANNOTATION, explain, is_asked
from rewound.actors.scheduler.hints import Hints
from rewound.actors.scheduler.matching import Selector
from rewound.actors.scheduler.nodes import Cluster, NodeState, insufficient
from rewound.actors.scheduler.plugins import (
    NODE_ADD,
    NODE_ALLOCATABLE,
    NODE_CONDITIONS,
    NODE_DECLARES,
    NODE_DELETE,
    NODE_LABELS,
    NODE_TAINTS,
    POD_ADD,
    POD_ASKS,
    POD_DELETE,
    POD_LABELS,
    POD_SCALE_DOWN,
    POD_TOLERATIONS,
    POD_UPDATE,
    SchedulingContext,
    SchedulingError,
)
from rewound.actors.scheduler.pod_groups import (
    FOR_OTHERS,
    FOR_VICTIMS,
    UNSCHEDULABLE,
    Group,
    PodGroups,
    condition_of,
    groups_type,
)
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.scheduler.preemption import Outcome, Preemption
from rewound.actors.scheduler.queue import Check, Key, QueuedPod, SchedulingQueue
from rewound.actors.scheduler.spread import CONTROLLER_TYPES, default_selector
from rewound.actors.scheduler.volume_objects import VolumeObjects
from rewound.actors.scheduler.volumes import (
    CAPACITY_ADD,
    CAPACITY_UPDATE,
    CLAIM_ADD,
    CLAIM_UPDATE,
    CLASS_ADD,
    CLASS_UPDATE,
    CSI_DRIVER_ADD,
    CSI_DRIVER_UPDATE,
    CSI_NODE_ADD,
    CSI_NODE_UPDATE,
    VOLUME_ADD,
    VOLUME_UPDATE,
    Reserved,
)
from rewound.actors.selectors.nodes import NO_SCHEDULE, untolerated
from rewound.actors.versions.features import (
    ASYNC_PREEMPTION,
    CLAIMS_BEFORE_PREEMPTION,
    COUNTED_ERRORS,
    DEVICE_TAINT_RULES,
    DISRUPTION_CONDITIONS,
    NOMINATION_CHANGES,
    NOMINATION_OF_BINDING,
    OBSERVED_GENERATION,
    POD_GROUPS,
    POP_FROM_BACKOFF,
    PREEMPTING_POD,
    PREEMPTING_POD_UNRELATED,
    PREEMPTING_SCHEDULER,
    QUEUEING_HINTS,
    REASON_OF_SCHEDULER,
)
from rewound.actors.workloads.cache import CachedType, controller_of, key_of
from rewound.actors.workloads.controller import Parts
from rewound.actors.workloads.recorder import Reporter
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

USER: Final = "system:kube-scheduler"
PASS: Final[Key] = ("", "")
# Decisions that are not written yet: enough for many commits, and a bound for their memory.
MAX_IN_FLIGHT: Final = 1000
# Pods whose volumes are being bound or provisioned, which may take minutes; others with such claims are tried later.
MAX_WAITING_FOR_VOLUMES: Final = 10_000
_TOO_MANY_WAIT: Final = (
    f"{MAX_WAITING_FOR_VOLUMES} pods wait for their volumes; this one is tried again later"
)
_MOST_TRIES: Final = 20  # of one attempt, which starts over if nodes are added or removed meanwhile
_CHANGING: Final = "the nodes kept changing while the pod was evaluated; it is tried again later"
# Of pods with their own labels, such as those of StatefulSets; then all are forgotten.
_MOST_SELECTORS: Final = 10_000
# Of processor time for one attempt: a hundred times what ordinary pods take with thousands of nodes.
MOST_SECONDS: Final = 5.0
# Stands for the plugins that rejected such a pod: no change helps it, but after five minutes it is tried again.
_TOO_COSTLY: Final = frozenset(["ProcessorTime"])
_LONGEST_NOTE: Final = 1024  # characters of an Event


@dataclass(slots=True)
class Binding:
    queued: QueuedPod
    node: str
    explanation: str = ""  # for the pod's annotation, if it asked for one
    volumes: Reserved | None = None  # to be bound or provisioned first
    volumes_since: float | None = None  # when these were written
    devices: ReservedDevices | None = None  # to be written first
    has_devices: bool = False  # whether these were written
    is_expected: bool = False  # whether the pod's status names the node


@dataclass(slots=True)
class Failed:
    queued: QueuedPod
    message: str
    reason: str
    outcome: Outcome
    explanation: str = ""
    release: Object | None = None  # a resource claim whose allocation is given up


@dataclass(slots=True)
class Found:
    """What a decision about a pod comes to: a node, or why there is none."""

    evaluation: Evaluation | None = None
    node: NodeState | None = None
    message: str = ""
    reason: str = "Unschedulable"
    plugins: frozenset[str] = frozenset()
    outcome: Outcome = field(default_factory=lambda: Outcome(nominate=""))
    release: Object | None = None


@dataclass(slots=True)
class Member:
    """A pod of a group, and what its group may do with it."""

    queued: QueuedPod
    found: Found
    explanation: str = ""
    binding: Binding | None = None

    @property
    def preempts(self) -> bool:
        return self.binding is None and bool(self.found.outcome.nominate)


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    attempts: Mapping[tuple[str, str], int]  # by result and profile
    pending: Mapping[str, int]  # pods in each part of the queue
    preemption_attempts: int
    victims: int


class Scheduler:
    name = "scheduler"
    observed_types: frozenset[int] = frozenset()  # none: the cache reports changes

    def __init__(self, parts: Parts, configuration: SchedulerConfiguration | None = None) -> None:
        context, cache = parts.context, parts.cache
        self._configuration = configuration or default_configuration()
        self._names, self._clock, self._cache = context.names, context.clock, cache
        self._features = context.features
        user = User(USER, groups=(AUTHENTICATED,))
        self._client = Client(context.directory, context.write_contexts, user, "kube-scheduler")
        self._reporters = {
            name: Reporter(parts.events, self._client, name) for name in self._configuration.profiles
        }
        self.queue: WorkQueue[Key] = WorkQueue()
        self._pods, self._nodes = cache.collection("pods"), cache.collection("nodes")
        self._namespaces = cache.collection("namespaces")
        self._owners = {
            kind: cache.collection(type_name)
            for kind, type_name in zip(
                CONTROLLER_TYPES,
                ("replicationcontrollers", "replicasets.apps", "statefulsets.apps"),
                strict=True,
            )
        }
        self._services = cache.collection("services")
        self._budgets = cache.collection("poddisruptionbudgets.policy")
        self._random = context.write_contexts.random
        self._large_work = context.directory.large_work
        storage = context.names.group("storage")
        claims, volumes = cache.collection("persistentvolumeclaims"), cache.collection("persistentvolumes")
        classes, nodes, drivers, capacities = (
            cache.collection(f"{plural}.{storage}")
            for plural in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")
        )
        self._claim_definition, self._volume_definition = claims.definition, volumes.definition
        self._volumes = VolumeObjects(context.names, claims, volumes, classes, nodes, drivers, capacities)
        self._storage: tuple[tuple[CachedType, str, str], ...] = (
            (claims, CLAIM_ADD, CLAIM_UPDATE),
            (volumes, VOLUME_ADD, VOLUME_UPDATE),
            (classes, CLASS_ADD, CLASS_UPDATE),
            (nodes, CSI_NODE_ADD, CSI_NODE_UPDATE),
            (drivers, CSI_DRIVER_ADD, CSI_DRIVER_UPDATE),
            (capacities, CAPACITY_ADD, CAPACITY_UPDATE),
        )
        self._device_types = self._find_device_types()
        group_type = groups_type(context.names, context.features)
        self._group_objects = cache.collection(group_type) if group_type else None
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._preemption_attempts = self._victims = 0
        self._work: dict[Key, list[Binding | Failed]] = {}
        # Pods whose volumes are being bound, and the pods that wait for each claim and volume.
        self._waiting_for_volumes: dict[Key, Reserved] = {}
        self._waiting_for: dict[Key, set[Key]] = {}
        self._is_ready = self._pauses = False
        self._spent = 0.0  # seconds of processor time for the current pod
        self._begin()
        self._listen()

    def _find_device_types(self) -> tuple[CachedType, ...]:
        """Claims, classes, slices and rules of taints; none if this version does not allocate devices."""
        if not devices_are_allocated(self._features):
            return ()
        group = self._names.group("resource")
        plurals = ["resourceclaims", "deviceclasses", "resourceslices"]
        if DEVICE_TAINT_RULES in self._features:
            plurals.append("devicetaintrules")
        return tuple(self._cache.collection(f"{one}.{group}") for one in plurals)

    def _begin(self) -> None:
        configuration = self._configuration
        self._cluster = Cluster(self._names, self._features)
        self._devices: DeviceObjects | None = None
        self._held: dict[Key, PodFacts] = {}  # pods whose resource claims do not exist yet
        self._waiting_for_devices: set[Key] = set()
        if self._device_types:
            self._devices = DeviceObjects(self._names, self._features, self._clock.now, *self._device_types)
            definitions = self._pods.definition, self._device_types[0].definition
            self._device_binding = DeviceBinding(self._client, *definitions, self._devices)
        self._groups: PodGroups | None = None
        if self._group_objects is not None:
            self._groups = PodGroups(self._features, self._group_objects, self._cluster)
        self._group_conditions: dict[Key, tuple[str, str, str]] = {}  # that are not written yet
        self._hints: Hints | None = None
        wakes = configuration.wakes()
        if QUEUEING_HINTS in self._features:
            self._hints = Hints(
                self._names, self._features, self._cluster.shapes, configuration.plugins(), self._devices
            )
            wakes = self._hints.wakes
        self._pending = SchedulingQueue(
            trio.current_time,
            wakes,
            configuration.initial_backoff,
            configuration.longest_backoff,
            has_hints=self._hints is not None,
            pops_early=POP_FROM_BACKOFF in self._features,
            counts_errors=COUNTED_ERRORS in self._features,
        )
        self._evaluations = Evaluations(self._cluster, self._random, configuration.percentage_of_nodes)
        self._preemption = Preemption(
            self._cluster, self._random, self._clock.now, lambda: self._budgets, self._features
        )
        self._namespace_labels: dict[str, Object] = {}
        self._selectors: dict[tuple[str, str, str], Selector] = {}
        self._work.clear()
        self._waiting_for_volumes.clear()
        self._waiting_for.clear()

    def _listen(self) -> None:
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)
        self._namespaces.listen(self._namespace_changed)
        for collection in (self._services, *self._owners.values()):
            collection.listen(self._selector_changed)
        for collection, added, updated in self._storage:
            collection.listen(partial(self._storage_changed, added, updated))
        changed = (self._claim_changed, self._class_changed, self._slices_changed, self._slices_changed)
        for collection, listener in zip(self._device_types, changed, strict=False):
            collection.listen(listener)
        if self._group_objects is not None:
            self._group_objects.listen(self._group_changed)

    def statistics(self) -> SchedulerStatistics:
        return SchedulerStatistics(
            self._attempts, self._pending.counts(), self._preemption_attempts, self._victims
        )

    def observe(self, events: Sequence[Event]) -> None:
        """Do nothing: the cache reports changes."""

    async def catch_up(self) -> None:
        self._is_ready = False
        await self._cache.loaded()
        self._begin()
        for namespace in self._namespaces:
            self._namespace_changed(None, namespace)
        self._is_ready = True
        await self._nodes.visit(partial(self._node_changed, None))
        await self._pods.visit(partial(self._pod_changed, None))
        self.queue.add(PASS)

    async def reconcile(self, key: Key) -> None:
        if key == PASS:
            await self._pass()
            return
        if key in self._group_conditions:
            await self._report_group(key)
            return
        decisions = self._work.get(key, [])
        while decisions:
            decision = decisions[0]
            if isinstance(decision, Failed):
                await self._report(decision)
            elif not await self._bind(decision):
                return  # a change of its volumes adds the key again
            del decisions[0]
        self._work.pop(key, None)
        if self._pauses:
            self.queue.add(PASS)

    async def _pass(self) -> None:
        """Decide about all active pods; pauses while too many decisions are not written yet."""
        turn = Turn()
        self._pauses = False
        while True:
            waiting = len(self._waiting_for_volumes) + len(self._waiting_for_devices)
            if len(self._work) - waiting >= MAX_IN_FLIGHT:
                self._pauses = True
                break
            for _ in self._pending.waking():
                if turn.over():
                    await next_turn()
                    turn = Turn()
            queued = self._pending.pop()
            if queued is None:
                break
            turn = await self._in_turns(self._attempt(queued), turn)
            if turn.over():
                await next_turn()
                turn = Turn()
        due = self._pending.next_due()
        if due is not None:
            self.queue.add_after(PASS, max(due - trio.current_time(), 0.0))

    async def _in_turns(self, steps: Generator[None], turn: Turn) -> Turn:
        """Run an attempt, with the work in a thread that it waits for; ends a decision that takes too long."""
        self._spent, error = 0.0, None
        while True:
            began = turns.processor_now()
            try:
                if error is None:
                    next(steps)
                else:
                    steps.throw(error)
            except StopIteration:
                return turn
            self._spent += turns.processor_now() - began
            error = await self._work_in_thread()
            if self._spent > MOST_SECONDS:
                self._spent, error = 0.0, TooCostly(MOST_SECONDS)
            if turn.over():
                await next_turn()
                turn = Turn()

    async def _work_in_thread(self) -> Exception | None:
        """Evaluate the selector of devices that the attempt waits for, if any; returns why that failed."""
        if self._devices is not None:
            try:
                self._spent += await self._devices.selectors.work(self._large_work)
            except RequestError as refused:
                return refused
        return None

    def _attempt(self, queued: QueuedPod) -> Generator[None]:
        """Decide about a pod, in steps; starts over if the cluster changes too much in between."""
        pod = queued.facts
        group = None if self._groups is None else self._groups.of(pod.pod)
        try:
            if self._groups is not None and group is not None:
                yield from self._decide_group(queued, group, self._groups)
                return
            for _ in range(_MOST_TRIES):
                try:
                    if (yield from self._decide(queued)):
                        return
                except Outdated:
                    pass
                yield
            self._failed(queued, _CHANGING, "SchedulerError", Outcome(nominate=""), frozenset())
        except TooCostly as wrong:
            self._failed(queued, str(wrong), "Unschedulable", Outcome(nominate=""), _TOO_COSTLY)
        except RequestError as refused:
            self._failed(queued, str(refused), "SchedulerError", Outcome(nominate=""), frozenset())
        except Exception as broken:  # one pod must not prevent the others from being scheduled
            logger.exception("the scheduler broke on pod %s/%s", pod.namespace, pod.name)
            message = f"{type(broken).__name__}: {broken}"
            self._failed(queued, message, "SchedulerError", Outcome(nominate=""), frozenset())

    def _decide(self, queued: QueuedPod) -> Steps[bool]:
        """Returns False if the decision no longer holds. Raises Outdated."""
        if not self._can_be_tried(queued):
            return True
        pod = queued.facts
        profile = self._configuration.profiles[pod.spec["schedulerName"]]
        found = yield from self._find(profile, pod)
        if found is None:
            return False
        node = found.node
        explanation = yield from self._explanation(profile, pod, node.name if node is not None else "")
        if node is not None and not (yield from self._is_still_feasible(found, pod)):
            return False
        if not self._pending.is_in_flight(queued):
            return True
        if queued.facts is not pod:
            return False  # it has changed
        if node is None:
            self._failed(
                queued, found.message, found.reason, found.outcome, found.plugins, explanation, found.release
            )
            return True
        if self._has_too_many_waiting(found):
            self._failed(queued, _TOO_MANY_WAIT, "SchedulerError", Outcome(nominate=""), frozenset())
            return True
        binding = self._reserve(queued, found, explanation)
        if binding is None:
            return False
        self._add_work(queued, binding)
        return True

    def _can_be_tried(self, queued: QueuedPod) -> bool:
        if not self._pending.is_in_flight(queued):
            return False  # it was deleted or assigned
        pod = queued.facts
        if pod.terminating:
            self._event(
                pod, "Warning", "FailedScheduling", f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            )
            self._pending.delete(pod)
            return False
        if self._devices is not None and pod.spec.get("resourceClaims") and self._devices.missing(pod.pod):
            self._pending.delete(pod)
            self._held[queued.key] = pod
            return False
        return True

    def _find(self, profile: Profile, pod: PodFacts) -> Steps[Found | None]:
        """A node for the pod, or why there is none; None if that no longer holds. Raises Outdated."""
        nominated = self._nominated_for(pod)
        found = Found()
        try:
            found.evaluation = yield from self._evaluations.of(profile, pod, self._surroundings(pod))
            found.node = yield from self._evaluations.choose(found.evaluation, pod, nominated)
        except Unschedulable as wrong:
            diagnosis, evaluation = wrong.diagnosis, found.evaluation
            found.outcome, found.release = yield from self._preempted(profile, pod, evaluation, diagnosis)
            is_old = evaluation is not None and not evaluation.has_seen_all
            if is_old and found.outcome.nominate == "" and pod.pod["status"].get("nominatedNodeName"):
                return None  # its last victim may have ended meanwhile: it must not lose its place
            found.message, found.plugins = diagnosis.message(), diagnosis.plugins
        except NoNodes as wrong:
            found.message = str(wrong)
        except SchedulingError as wrong:
            found.message, found.reason = str(wrong), "SchedulerError"
        except TooCostly as wrong:
            found.message, found.plugins = str(wrong), _TOO_COSTLY
        return found

    def _is_still_feasible(self, found: Found, pod: PodFacts) -> Steps[bool]:
        """Whether the chosen node can still have the pod, after changes between the steps."""
        evaluation, node = found.evaluation, found.node
        assert evaluation is not None and node is not None
        nominated = self._nominated_for(pod)
        return (yield from self._evaluations.is_still_feasible(evaluation, node, nominated))

    def _has_too_many_waiting(self, found: Found) -> bool:
        evaluation, node = found.evaluation, found.node
        volumes = None if evaluation is None else evaluation.volumes()
        if volumes is None or node is None or len(self._waiting_for_volumes) < MAX_WAITING_FOR_VOLUMES:
            return False
        return volumes.is_current(node) and volumes.reserve(node) is not None

    def _reserve(self, queued: QueuedPod, found: Found, explanation: str) -> Binding | None:
        """Count the pod on its node, with volumes and devices; None if the node no longer has those."""
        pod, evaluation, node = queued.facts, found.evaluation, found.node
        assert evaluation is not None and node is not None
        volumes, devices = evaluation.volumes(), evaluation.devices()
        if volumes is not None and not volumes.is_current(node):
            return None
        if devices is not None and not devices.is_current():
            return None
        reserved = None if volumes is None else volumes.reserve(node)
        if reserved is not None:
            self._volumes.assume(reserved.claims, reserved.volumes)
        self._cluster.assume(pod, node.name)
        self._pending.nominate(pod, "")
        binding = Binding(queued, node.name, explanation, reserved)
        binding.devices = None if devices is None else devices.reserve(node)
        return binding

    def _decide_group(self, queued: QueuedPod, group: Group, groups: PodGroups) -> Steps[None]:
        """Decide about all waiting pods of a group: those with a node are bound if they are enough, or none is.

        Each counts on the node that it found, or to which it is nominated, while the others are tried.
        """
        waiting = [queued, *filter(None, map(self._pending.pop_named, groups.members(group)))]
        waiting = [one for one in waiting if self._can_be_tried(one)]
        if not groups.is_complete(group):
            for one in waiting:
                self._pending.delete(one.facts)
                groups.hold(group, one.facts)
            return
        waiting.sort(key=lambda one: (-one.facts.priority, one.added))
        names = list(dict.fromkeys(one.facts.spec["schedulerName"] for one in waiting))
        if len(names) > 1:
            pair = ", ".join(map(quoted, names[:2])).replace(", ", " and ")
            text = f"all pods in a single pod group should have the same .spec.schedulerName set, got: {pair}"
            for one in waiting:
                self._failed_member(one, text, "SchedulerError")
            return
        needed, placed = groups.minimum(group) or 0, groups.placed(group)
        members: list[Member] = []
        fits = preempts = False
        for one in waiting:
            member = yield from self._try_member(one)
            if member is None:
                continue  # deleted or assigned meanwhile
            members.append(member)
            if member.found.reason == "SchedulerError":
                break
            if member.binding is not None or member.preempts:
                placed += 1
                preempts = preempts or member.preempts
                fits = fits or placed >= needed
        error = next((one.found for one in members if one.found.reason == "SchedulerError"), None)
        if error is not None or not fits or preempts:
            self._take_back(members)
        if error is not None:
            self._fail_group(group, members, waiting, error)
        elif fits and not preempts:
            self._bind_group(members)
            self._note_group(group, "True", "Scheduled", "")
        elif members:
            self._let_group_wait(members, for_victims=fits)
            self._note_group(group, "False", "Unschedulable", FOR_VICTIMS if fits else UNSCHEDULABLE)

    def _try_member(self, queued: QueuedPod) -> Steps[Member | None]:
        """Count a pod where it fits, or where it may preempt others; None if it needs no node any more."""
        self._spent = 0.0  # each pod of a group may take as much as one without a group
        for _ in range(_MOST_TRIES):
            pod = queued.facts
            if not self._pending.is_in_flight(queued):
                return None
            profile = self._configuration.profiles[pod.spec["schedulerName"]]
            try:
                found = yield from self._find(profile, pod)
                if found is None:
                    continue
                name = found.node.name if found.node is not None else ""
                explanation = yield from self._explanation(profile, pod, name)
                if found.node is not None and not (yield from self._is_still_feasible(found, pod)):
                    continue
            except Outdated:
                yield
                continue
            if not self._pending.is_in_flight(queued):
                return None
            if queued.facts is not pod:
                continue
            if self._has_too_many_waiting(found):
                return Member(queued, Found(message=_TOO_MANY_WAIT, reason="SchedulerError"))
            if found.node is None:
                if found.outcome.nominate:
                    self._cluster.assume(pod, found.outcome.nominate)
                return Member(queued, found, explanation)
            binding = self._reserve(queued, found, explanation)
            if binding is not None:
                return Member(queued, found, explanation, binding)
        return Member(queued, Found(message=_CHANGING, reason="SchedulerError"))

    def _take_back(self, members: Sequence[Member]) -> None:
        """None of these counts on a node any more."""
        for one in members:
            pod = one.queued.facts
            if one.binding is not None and one.binding.volumes is not None:
                self._volumes.forget(one.binding.volumes.claims, one.binding.volumes.volumes)
            if one.binding is not None and one.binding.devices is not None and self._devices is not None:
                for claim, _ in one.binding.devices.claims:
                    self._devices.end(claim["metadata"]["uid"])
            if one.binding is not None or one.preempts:
                self._cluster.remove_pod(pod.uid)
            stored = self._stored(pod)
            if stored is not None:
                one.queued.facts = self._cluster.shapes.facts(stored)  # it may have changed meanwhile

    def _bind_group(self, members: Sequence[Member]) -> None:
        for one in members:
            if one.binding is not None:
                self._add_work(one.queued, one.binding)
            else:
                self._failed_member(one.queued, one.found.message, one.found.reason, one)

    def _let_group_wait(self, members: Sequence[Member], *, for_victims: bool) -> None:
        for one in members:
            found = one.found
            if one.binding is not None and for_victims:
                found.outcome = Outcome(nominate=one.binding.node)
                self._failed_member(one.queued, FOR_VICTIMS, "Unschedulable", one)
            elif one.binding is not None or (one.preempts and not for_victims):
                victims = found.outcome.victims
                found.outcome = replace(found.outcome, nominate="", victims=victims)
                self._failed_member(one.queued, FOR_OTHERS, "Unschedulable", one)
            else:
                self._failed_member(one.queued, found.message, found.reason, one)

    def _fail_group(
        self, group: Group, members: Sequence[Member], waiting: Sequence[QueuedPod], error: Found
    ) -> None:
        text = f"failed to schedule other pod from a pod group: {error.message}"
        failed = {one.queued.key for one in members if one.found is error}
        for one in waiting:
            self._failed_member(one, error.message if one.key in failed else text, "SchedulerError")
        self._note_group(group, "False", "SchedulerError", text)

    def _failed_member(
        self, queued: QueuedPod, message: str, reason: str, member: Member | None = None
    ) -> None:
        """Take a pod of a group back: it is tried again after its backoff, whatever changes."""
        if not self._pending.is_in_flight(queued):
            return
        if member is None:
            self._failed(queued, message, reason, Outcome(nominate=""), frozenset(), is_late=True)
            return
        found = member.found
        self._failed(
            queued,
            message,
            reason,
            found.outcome,
            frozenset(),
            member.explanation,
            found.release,
            is_late=True,
        )

    def _note_group(self, group: Group, status: str, reason: str, message: str) -> None:
        """Queue the write of a PodGroup's condition."""
        if POD_GROUPS in self._features:
            key = group[0], f"podgroups/{group[1]}"  # no pod can have this name
            self._group_conditions[key] = status, reason, message
            self.queue.add(key)

    async def _report_group(self, key: Key) -> None:
        objects = self._group_objects
        assert objects is not None
        namespace, name = key[0], key[1].partition("/")[2]
        decided, stored = self._group_conditions[key], objects.get(namespace, name)
        if stored is not None:
            condition = condition_of(stored, *decided, seconds_text(self._clock.now()))
            if condition is not None:
                patch = {
                    "metadata": {"uid": stored["metadata"]["uid"]},
                    "status": {"conditions": [condition]},
                }
                try:
                    await self._client.patch(
                        objects.definition, namespace, name, patch, "strategic", "status"
                    )
                except RequestError as refused:
                    logger.info(
                        "the condition of pod group %s/%s was not written: %s", namespace, name, refused
                    )
        if self._group_conditions.get(key) == decided:
            del self._group_conditions[key]
        else:
            self.queue.add(key)

    def _preempted(
        self, profile: Profile, pod: PodFacts, evaluation: Evaluation | None, diagnosis: Diagnosis
    ) -> Steps[tuple[Outcome, Object | None]]:
        """What may help the pod: fewer pods of lower priority, or a resource claim that gives up its allocation."""
        released, claim = self._released(evaluation, diagnosis)
        if not profile.preempts:
            return Outcome(), claim
        if released == "not found":
            diagnosis.after = released  # kube-scheduler has not looked up the claims then, and gives up
            return Outcome(), None
        nominated = self._nominated_for(pod) or (lambda _: ())
        outcome = yield from self._preemption.attempt(profile, pod, evaluation, diagnosis, nominated)
        diagnosis.after = outcome.message
        if outcome.message and released:
            diagnosis.after = f"{released}, {outcome.message}"
        self._preemption_attempts += 1
        self._victims += len(outcome.victims)
        return outcome, claim

    def _released(self, evaluation: Evaluation | None, diagnosis: Diagnosis) -> tuple[str, Object | None]:
        """A resource claim that gives up its allocation, and what is said about that."""
        says_so = CLAIMS_BEFORE_PREEMPTION in self._features or self._devices is not None
        if evaluation is None and diagnosis.plugins != {DEVICES}:
            return ("not found" if says_so else ""), None
        devices = None if evaluation is None else evaluation.devices()
        if devices is None:
            return ("no new claims to deallocate" if says_so else ""), None
        return devices.release()

    def _failed(
        self,
        queued: QueuedPod,
        message: str,
        reason: str,
        outcome: Outcome,
        plugins: frozenset[str],
        explanation: str = "",
        release: Object | None = None,
        *,
        is_late: bool = False,
    ) -> None:
        """`is_late`: nothing but its backoff ends before the pod is tried again."""
        if (
            outcome.victims
            and DISRUPTION_CONDITIONS in self._features
            and ASYNC_PREEMPTION not in self._features
        ):
            self._pending.note_change()  # of the victims, which get a condition while the decision is made
        self._pending.add_unschedulable(queued, plugins, is_error=is_late or reason == "SchedulerError")
        if outcome.nominate is not None:
            self._pending.nominate(queued.facts, outcome.nominate)
        profile = self._configuration.profiles[queued.facts.spec["schedulerName"]]
        self._attempts["unschedulable" if reason == "Unschedulable" else "error", profile.name] += 1
        self._add_work(queued, Failed(queued, message, reason, outcome, explanation, release))

    def _add_work(self, queued: QueuedPod, decision: Binding | Failed) -> None:
        self._work.setdefault(queued.key, []).append(decision)
        self.queue.add(queued.key)

    def _explanation(self, profile: Profile, pod: PodFacts, node: str) -> Steps[str]:
        """For the annotation of a pod that asks for it. Raises Outdated."""
        if not is_asked(pod.pod):
            return ""
        found = yield from explain(profile, pod, self._surroundings(pod), node, IN_ANNOTATION)
        return dumps(found).decode()

    def _nominated_for(self, pod: PodFacts) -> partial[Sequence[PodFacts]] | None:
        """The pods of at least this priority that are nominated to a node; None: there are none at all."""
        return partial(self._nominated, pod) if self._pending.has_nominated else None

    def _nominated(self, pod: PodFacts, node: str) -> Sequence[PodFacts]:
        to_come = self._pending.nominated(node)
        return [one for one in to_come if one.priority >= pod.priority and one.uid != pod.uid]

    def _surroundings(self, pod: PodFacts) -> SchedulingContext:
        return SchedulingContext(
            self._cluster, self._volumes, self._namespace_labels, self._default_selector(pod), self._devices
        )

    def _default_selector(self, pod: PodFacts) -> Selector:
        """The pods that the services and the controller of a pod select; the same for all pods of a controller."""
        owner = controller_of(pod.pod) or {}
        key = pod.namespace, repr(pod.labels), owner.get("uid", "")
        found = self._selectors.get(key)
        if found is None:
            if len(self._selectors) >= _MOST_SELECTORS:
                self._selectors.clear()
            services = self._services.in_namespace(pod.namespace)
            found = self._selectors[key] = default_selector(pod, services, self._owners)
        return found

    async def _bind(self, decision: Binding) -> bool:
        """Assign the pod; False if its volumes are not bound yet."""
        pod, node = decision.queued.facts, decision.node
        metadata: Object = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if decision.explanation:
            metadata["annotations"] = {ANSWERED: decision.explanation}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
        await self._expect(decision)
        try:
            if decision.volumes is not None and not await self._bind_volumes(decision, decision.volumes):
                return False
        except (RequestError, SchedulingError) as refused:
            await self._forget(decision, f'running PreBind plugin "VolumeBinding": {refused}')
            return True
        try:
            if decision.devices is not None and not await self._bind_devices(decision, decision.devices):
                return False
        except (RequestError, SchedulingError) as refused:
            await self._forget(decision, f'running PreBind plugin "{DEVICES}": {refused}')
            return True
        try:
            await self._client.submit(self._pods.definition, pod.namespace, pod.name, "binding", binding)
        except RequestError as refused:
            await self._forget(decision, f"binding rejected: {refused}")
            return True
        self._release(decision)
        self._attempts["scheduled", pod.spec["schedulerName"]] += 1
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._event(pod, "Normal", "Scheduled", text, "Binding")
        return True

    async def _expect(self, decision: Binding) -> None:
        """Name the node in the status of a pod that is not bound to it at once."""
        if decision.is_expected or NOMINATION_OF_BINDING not in self._features:
            return
        if decision.volumes is not None or decision.devices is not None:
            decision.is_expected = True
            await self._patch_status(decision.queued.facts, {"nominatedNodeName": decision.node})

    async def _bind_volumes(self, decision: Binding, reserved: Reserved) -> bool:
        """Write the choice, once, and wait for the binder and provisioners; False: they have not finished."""
        key, now = decision.queued.key, trio.current_time()
        if decision.volumes_since is None:
            decision.volumes_since = now
            self._wait_for(key, reserved)
            for volume in reserved.volumes:
                await self._client.replace(self._volume_definition, volume)
            for claim in reserved.claims:
                await self._client.replace(self._claim_definition, claim)
        if self._stored(decision.queued.facts) is None:
            raise SchedulingError("binding volumes: pod does not exist any more")
        if reserved.is_bound(self._volumes, decision.node):
            return True
        profile = self._configuration.profiles[decision.queued.facts.spec["schedulerName"]]
        left = decision.volumes_since + profile.bind_timeout - now
        if left <= 0:
            raise SchedulingError("binding volumes: timed out waiting for the condition")
        self.queue.add_after(key, left)
        return False

    async def _bind_devices(self, decision: Binding, reserved: ReservedDevices) -> bool:
        """Write the allocations, once, and wait for devices that must be bound; False: they are not yet."""
        pod, key = decision.queued.facts, decision.queued.key
        if not decision.has_devices:
            await self._device_binding.bind(pod, reserved)
            decision.has_devices = True
            if not reserved.must_be_bound:
                return True
            text = f"waiting for binding conditions for device on node {decision.node}"
            self._event(pod, "Normal", "BindingConditionsPending", text)
            self._waiting_for_devices.add(key)
        if self._stored(pod) is None:
            raise SchedulingError("pod does not exist any more")
        if not reserved.must_be_bound or self._device_binding.is_bound(reserved):
            return True
        self.queue.add_after(key, POLL)
        return False

    def _release(self, decision: Binding) -> None:
        """Drop the assumptions about volumes."""
        self._waiting_for_devices.discard(decision.queued.key)
        if decision.volumes is not None:
            self._volumes.forget(decision.volumes.claims, decision.volumes.volumes)
            self._end_wait(decision.queued.key)

    def _wait_for(self, key: Key, reserved: Reserved) -> None:
        """A change of one of these claims and volumes adds the key of the pod."""
        self._waiting_for_volumes[key] = reserved
        for one in reserved.awaited():
            self._waiting_for.setdefault(one, set()).add(key)

    def _end_wait(self, key: Key) -> None:
        reserved = self._waiting_for_volumes.pop(key, None)
        for one in reserved.awaited() if reserved is not None else ():
            waiting = self._waiting_for.get(one, set())
            waiting.discard(key)
            if not waiting:
                self._waiting_for.pop(one, None)

    async def _forget(self, decision: Binding, message: str) -> None:
        """The pod does not run on the node after all, so another one may."""
        queued = decision.queued
        self._release(decision)
        if decision.devices is not None:
            await self._device_binding.unreserve(queued.facts, decision.devices)
        stored = self._stored(queued.facts)
        if stored is not None and stored["spec"].get("nodeName"):
            return  # another program assigned it
        self._cluster.remove_pod(queued.facts.uid)
        self._change(POD_DELETE, queued.facts)
        if stored is not None:
            queued.facts = self._cluster.shapes.facts(stored)
            self._failed(queued, message, "SchedulerError", Outcome(nominate=""), frozenset())
        self.queue.add(PASS)

    async def _report(self, decision: Failed) -> None:
        pod, outcome = decision.queued.facts, decision.outcome
        if decision.release is not None:
            await self._device_binding.release(decision.release)
        for victim in outcome.victims:
            await self._preempt(victim, pod, outcome.nominate or "")
        if outcome.victims and outcome.nominate:
            for other in [
                one for one in self._pending.nominated(outcome.nominate) if one.priority < pod.priority
            ]:
                await self._clear_nomination(other)
        stored = self._stored(pod)
        if stored is None or "nodeName" in stored["spec"]:
            return
        note = decision.message
        if len(note) > _LONGEST_NOTE:
            note = f"{note[: _LONGEST_NOTE - 4]} ..."
        self._event(pod, "Warning", "FailedScheduling", note)
        await self._update_status(stored, decision)

    async def _preempt(self, victim: PodFacts, pod: PodFacts, node: str) -> None:
        options = DeleteOptions(uid=victim.uid)
        try:
            if DISRUPTION_CONDITIONS in self._features:
                await self._mark_disrupted(victim, pod)
            await self._client.delete(self._pods.definition, victim.namespace, victim.name, options)
        except RequestError as refused:
            logger.info("%s/%s was not preempted: %s", victim.namespace, victim.name, refused)
            return
        reporter = self._reporters[pod.spec["schedulerName"]]
        who = f"pod {pod.uid}" if PREEMPTING_POD in self._features else "a pod"
        text = f"Preempted by {who} on node {node}"
        related = None if PREEMPTING_POD_UNRELATED in self._features else pod.pod
        reporter.event(
            self._pods.definition, victim.pod, "Normal", "Preempted", text, "Preempting", related=related
        )

    async def _mark_disrupted(self, victim: PodFacts, pod: PodFacts) -> None:
        by = "Scheduler" if REASON_OF_SCHEDULER in self._features else "KubeScheduler"
        message = "Kube-scheduler: preempting"
        if PREEMPTING_SCHEDULER in self._features:
            message = f"{pod.spec['schedulerName']}: preempting to accommodate a higher priority pod"
        condition = {
            "type": "DisruptionTarget",
            **self._observed(victim.pod),
            "status": "True",
            "reason": f"PreemptionBy{by}",
            "message": message,
            "lastTransitionTime": seconds_text(self._clock.now()),
        }
        patch = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            self._pods.definition, victim.namespace, victim.name, patch, "strategic", "status"
        )

    def _observed(self, pod: Object) -> Object:
        """The generation that a condition is about, in versions that have it."""
        if OBSERVED_GENERATION not in self._features or "generation" not in pod["metadata"]:
            return {}
        return {"observedGeneration": pod["metadata"]["generation"]}

    async def _clear_nomination(self, pod: PodFacts) -> None:
        self._pending.nominate(pod, "")
        await self._patch_status(pod, {"nominatedNodeName": None})

    async def _update_status(self, stored: Object, decision: Failed) -> None:
        status, wanted = stored.get("status", {}), decision.outcome.nominate
        condition = {
            "type": "PodScheduled",
            **self._observed(stored),
            "status": "False",
            "reason": decision.reason,
            "message": decision.message,
            "lastTransitionTime": seconds_text(self._clock.now()),
        }
        changes: Object = {}
        before: Object = next(
            (one for one in status.get("conditions", ()) if one["type"] == "PodScheduled"), {}
        )
        if before.get("status") == "False":
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        if any(before.get(name) != value for name, value in condition.items()):
            changes["conditions"] = [condition]
        if wanted is not None and wanted != status.get("nominatedNodeName", ""):
            changes["nominatedNodeName"] = wanted or None
        explanation = decision.explanation
        if stored["metadata"].get("annotations", {}).get(ANSWERED, "") == explanation:
            explanation = ""
        if changes or explanation:
            await self._patch_status(decision.queued.facts, changes, explanation)

    async def _patch_status(self, pod: PodFacts, changes: Object, explanation: str = "") -> None:
        patch: Object = {"metadata": {"uid": pod.uid}, "status": changes}
        if explanation:
            patch["metadata"]["annotations"] = {ANSWERED: explanation}
        try:
            await self._client.patch(
                self._pods.definition, pod.namespace, pod.name, patch, "strategic", "status"
            )
        except NotFound:
            pass
        except RequestError as refused:
            logger.info("the status of pod %s/%s was not written: %s", pod.namespace, pod.name, refused)

    def _event(
        self, pod: PodFacts, event_type: str, reason: str, note: str, action: str = "Scheduling"
    ) -> None:
        reporter = self._reporters[pod.spec["schedulerName"]]
        reporter.event(self._pods.definition, pod.pod, event_type, reason, note, action)

    def _stored(self, pod: PodFacts) -> Object | None:
        """The current pod; None if it is gone."""
        stored = self._pods.get(pod.namespace, pod.name)
        return stored if stored is not None and stored["metadata"]["uid"] == pod.uid else None

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._is_ready:
            return
        try:
            self._take_pod(old, new)
        except Exception:  # an invalid one, as from a recording: the others continue
            logger.exception("the scheduler left out pod %s", _name_of(new or old))

    def _take_pod(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._take_pod(old, None)
            old = None
        was, now = _placement(old), _placement(new)
        if self._groups is not None:
            self._follow_group(self._groups, old, new)
        if was == "waits" or now == "waits":
            self._waiting_changed(old if was == "waits" else None, new if now == "waits" else None)
        if was == "waits" and now != "assigned" and NOMINATION_CHANGES in self._features:
            self._nomination_changed(old, new)
        if was == "assigned" or now == "assigned":
            self._assigned_changed(old if was == "assigned" else None, new if now == "assigned" else None)

    def _follow_group(self, groups: PodGroups, old: Object | None, new: Object | None) -> None:
        """Count a pod in its group. It may be the last one for which others waited."""
        before, after = (None if one is None or has_ended(one) else one for one in (old, new))
        groups.follow(before, after)
        group = None if before is None else groups.of(before)
        if before is not None and group is not None and _placement(after) != "waits":
            groups.drop(group, before)
        if after is not None and before is None and (group := groups.of(after)) is not None:
            self._try_held(groups, group)

    def _try_held(self, groups: PodGroups, group: Group) -> None:
        for one in groups.take_held(group):
            self._pending.add(one)
            self.queue.add(PASS)

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        if self._is_ready and self._groups is not None and new is not None:
            for group in self._groups.named(new):
                self._try_held(self._groups, group)

    def _waiting_changed(self, old: Object | None, new: Object | None) -> None:
        for_us = self._configuration.profiles
        if new is None:
            assert old is not None
            if old["spec"]["schedulerName"] in for_us:
                self._pending.delete(self._cluster.shapes.facts(old))
            key = old["metadata"]["namespace"], old["metadata"]["name"]
            self._held.pop(key, None)
            if key in self._waiting_for_volumes or key in self._waiting_for_devices:
                self.queue.add(key)  # to give back what was reserved for it
        elif new["spec"]["schedulerName"] in for_us and self._cluster.node_of(new["metadata"]["uid"]) is None:
            facts = self._cluster.shapes.facts(new)
            group = None if self._groups is None else self._groups.of(new)
            if self._groups is not None and group is not None and not self._groups.is_complete(group):
                self._pending.delete(facts)
                self._groups.hold(group, facts)
                return
            if old is None or self._held.pop((facts.namespace, facts.name), None) is not None:
                self._pending.add(facts)
            else:
                self._pending.update(facts, self._own_changes(old, facts))
            self.queue.add(PASS)

    def _own_changes(self, old: Object, new: PodFacts) -> Sequence[tuple[str, Check | None]]:
        """The changes of a waiting pod that may help itself."""
        if self._hints is None:
            return ()
        if is_asked(new.pod) and not is_asked(old):
            return [(POD_ASKS, None)]
        before, hints = self._cluster.shapes.facts(old), self._hints
        kinds = _pod_changes(before, new)
        return [(kind, partial(hints.helps, hints.change(kind, before, new))) for kind in kinds]

    def _nomination_changed(self, old: Object | None, new: Object | None) -> None:
        """It no longer counts on the node that it was nominated to: others of at most its priority may fit there."""
        before, after = ((one or {}).get("status", {}).get("nominatedNodeName") for one in (old, new))
        if old is not None and before and before != after:
            self._change(POD_DELETE, self._cluster.shapes.facts(old), most=old["spec"].get("priority", 0))

    def _assigned_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            removed = self._cluster.remove_pod(old["metadata"]["uid"])
            self._change(POD_DELETE, removed or self._cluster.shapes.facts(old))
            return
        uid, node = new["metadata"]["uid"], new["spec"]["nodeName"]
        if self._cluster.node_of(uid) == node and old is not None and not _pod_differs(old, new):
            self._cluster.renew(new)
            if self._hints is None:
                self._wake_near(POD_UPDATE, new)
            return
        facts = self._cluster.shapes.facts(new)
        before = self._cluster.assume(facts, node)
        if self._hints is None:
            self._wake_near(POD_ADD if old is None else POD_UPDATE, new)
        elif old is None or before is None:
            self._change(POD_ADD, None, facts)
        else:
            for kind in _pod_changes(before, facts):
                self._change(kind, before, facts)

    def _wake_near(self, change: str, pod: Object) -> None:
        """Wake pods that must be near others and may have found them."""
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels", {})
        namespace_labels = self._namespace_labels.get(namespace, {})

        def selects(other: PodFacts, _: frozenset[str]) -> bool:
            terms = other.shape.required_affinity
            return any(one.matches(namespace, labels, namespace_labels) for one in terms)

        if self._pending.move_if_near(change, selects):
            self.queue.add(PASS)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._is_ready:
            return
        if new is None:
            assert old is not None
            self._cluster.remove_node(old["metadata"]["name"])
            if self._hints is not None:
                self._change(NODE_DELETE, old)
            return
        try:
            self._cluster.set_node(new)
        except Exception:
            logger.exception("the scheduler left out a change of node %s", new["metadata"]["name"])
            return
        kinds = [NODE_ADD] if old is None else _node_changes(old, new)
        if self._hints is not None:
            for kind in dict.fromkeys(kinds):
                self._change(kind, old, new)
        elif kinds:
            state = self._cluster.nodes[new["metadata"]["name"]]
            self._move(kinds[0], partial(_might_fit, state, self._features, self._devices))

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        stored = new or old
        assert stored is not None
        name = stored["metadata"]["name"]
        before = self._namespace_labels.pop(name, None)
        if new is not None:
            self._namespace_labels[name] = new["metadata"].get("labels", {})
        if before != self._namespace_labels.get(name):
            self._evaluations.clear()

    def _selector_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old["spec"].get("selector") != new["spec"].get("selector"):
            self._selectors.clear()

    def _storage_changed(self, added: str, updated: str, old: Object | None, new: Object | None) -> None:
        if not self._is_ready:
            return
        if new is None:
            assert old is not None
            self._wake_waiting(added, old)  # they wait for something that will not come
            return
        change = added if old is None else updated
        is_late = new.get("volumeBindingMode") == "WaitForFirstConsumer"
        if self._hints is not None or change != CLASS_ADD or is_late:
            self._change(change, old, new)
        self._wake_waiting(added, new)

    def _wake_waiting(self, added: str, stored: Object) -> None:
        if added in (CLAIM_ADD, VOLUME_ADD):
            for key in self._waiting_for.get(key_of(stored), ()):
                self.queue.add(key)

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._is_ready or self._devices is None:
            return
        self._devices.count(old, new)
        if new is None:
            return
        namespace = new["metadata"]["namespace"]
        for key in [one for one in self._held if one[0] == namespace]:
            self._pending.add(self._held.pop(key))
            self.queue.add(PASS)
        self._move(DEVICE_CLAIM, _of_pod_alone(partial(self._devices.claim_may_help, old, new)))
        for user in new.get("status", {}).get("reservedFor", ()):
            if (namespace, user["name"]) in self._waiting_for_devices:
                self.queue.add((namespace, user["name"]))

    def _class_changed(self, old: Object | None, new: Object | None) -> None:
        if self._is_ready and self._devices is not None:
            self._devices.changed()
            self._evaluations.clear()
            if new is not None:
                self._move(DEVICE_CLASS, _of_pod_alone(partial(self._devices.class_may_help, new)))

    def _slices_changed(self, old: Object | None, new: Object | None) -> None:
        if self._is_ready and self._devices is not None:
            self._devices.changed()
            self._move(DEVICE_SLICE)

    def _change(
        self,
        kind: str,
        old: PodFacts | Object | None,
        new: PodFacts | Object | None = None,
        most: int | None = None,
    ) -> None:
        """Try the pods again that a change may help; `most`: only those of at most this priority."""
        check: Check | None = None
        if self._hints is not None:
            check = partial(self._hints.helps, self._hints.change(kind, old, new))
        self._move(kind, check if most is None else partial(_is_at_most, most, check))

    def _move(self, change: str, check: Check | None = None) -> None:
        if self._pending.move(change, check):
            self.queue.add(PASS)


def has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _placement(pod: Object | None) -> str:
    """Where a pod counts. Finished pods count nowhere, nor do those that a scheduling gate holds back."""
    if pod is None or has_ended(pod):
        return ""
    if pod["spec"].get("nodeName"):
        return "assigned"
    return "" if pod["spec"].get("schedulingGates") else "waits"


def _pod_differs(old: Object, new: Object) -> bool:
    """Whether a running pod counts differently than before."""
    before, after = old["metadata"], new["metadata"]
    if before.get("labels") != after.get("labels"):
        return True
    if before.get("deletionTimestamp") != after.get("deletionTimestamp"):
        return True
    return bool(old["spec"] != new["spec"] or _held(old) != _held(new))


def _held(pod: Object) -> list[tuple[str, Object | None, Object | None]]:
    """The resources that the containers of a pod have or are to have, as far as its status says so."""
    status = pod.get("status", {})
    parts = (status, *status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
    return [
        (one.get("name", ""), one.get("resources"), one.get("allocatedResources"))
        for one in parts
        if "resources" in one or "allocatedResources" in one
    ]


def _pod_changes(old: PodFacts, new: PodFacts) -> list[str]:
    """The changes of a pod that hints look at."""
    found = [POD_LABELS] if old.labels != new.labels else []
    before, after = old.shape.requests, new.shape.requests
    if before != after and any(value > after.get(name, 0) for name, value in before.items()):
        found.append(POD_SCALE_DOWN)
    if old.spec.get("tolerations") != new.spec.get("tolerations"):
        found.append(POD_TOLERATIONS)
    return found


def _is_at_most(priority: int, check: Check | None, pod: PodFacts, plugins: frozenset[str]) -> bool:
    return pod.priority <= priority and (check is None or check(pod, plugins))


def _node_changes(old: Object, new: Object) -> list[str]:
    """The changes of a node that may help a pod, in the order in which kube-scheduler looks for them."""
    was, now = old.get("spec", {}), new.get("spec", {})
    before, after = old.get("status", {}), new.get("status", {})
    found = []
    if was.get("unschedulable", False) and not now.get("unschedulable", False):
        found.append(NODE_TAINTS)
    if before.get("allocatable") != after.get("allocatable"):
        found.append(NODE_ALLOCATABLE)
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        found.append(NODE_LABELS)
    if was.get("taints") != now.get("taints"):
        found.append(NODE_TAINTS)
    if _conditions(before) != _conditions(after):
        found.append(NODE_CONDITIONS)
    if before.get("declaredFeatures") != after.get("declaredFeatures"):
        found.append(NODE_DECLARES)
    return found


def _conditions(status: Object) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status.get("conditions", ())}


def _of_pod_alone(check: Callable[[PodFacts], bool]) -> Check:
    """A check that does not depend on the plugins that rejected the pod."""
    return lambda pod, _: check(pod)


def _might_fit(
    node: NodeState,
    features: frozenset[str],
    devices: DeviceObjects | None,
    pod: PodFacts,
    _: frozenset[str],
) -> bool:
    """Whether another attempt with this node is worthwhile for the pod."""
    elsewhere = devices.delegated(pod.shape.requests) if devices is not None else ()
    if insufficient(pod.shape.requests, node, features, elsewhere):
        return False
    try:
        if not pod.node_requirement.matches(node.name, node.labels):
            return False
        if any(node.has_conflict(port) for port in pod.shape.ports):
            return False
        return untolerated(node.taints, pod.spec.get("tolerations", ()), (NO_SCHEDULE,)) is None
    except Exception:
        return True  # the decision finds it too, and reports it; the pods behind this one must not wait


def _name_of(pod: Object | None) -> str:
    assert pod is not None
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
