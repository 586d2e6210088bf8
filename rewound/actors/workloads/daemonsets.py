"""DaemonSets: one pod on each node that the pod template allows.

The controller adds node affinity to the node's name; the scheduler then binds the pod there. `Placement` decides which
nodes the template allows, with the tolerations that every daemon pod has. `manage` and `roll_out` decide which pods to
create and delete, from the pods of each node; the controller carries that out. An update continues only when nothing
else is to be done. Everything that reads all nodes or pods takes turns.

Where v1.25 takes nodes in the order of a Go map, here they are in the order of their creation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from rewound.actors.errors import AlreadyExists, RequestError
from rewound.actors.kinds.apps import TEMPLATE_GENERATION
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.declaration.meta import label_selector_matches
from rewound.actors.kinds.declaration.workloads import int64_of, number_in
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.selectors.nodes import NO_EXECUTE, NO_SCHEDULE, NodeRequirement, untolerated
from rewound.actors.versions.features import NODES_THAT_NEED_WORK, NODES_WITH_UNAVAILABLE_PODS
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import CHANGED, Parts, WorkloadController
from rewound.actors.workloads.pods import (
    Claims,
    PodWriter,
    available_in,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    pod_from_template,
    stored_status,
)
from rewound.actors.workloads.revisions import (
    REVISION_LABEL,
    holds,
    in_order,
    new_revision,
    snapshot,
)
from rewound.actors.workloads.template_hash import template_hash

_GENERATION_LABEL: Final = "pod-template-generation"
_BURST: Final = 250  # pods that one pass creates or deletes at most
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 900.0  # seconds until a failed pod is replaced again
# While the pods of a large set change, a pass over all of them runs at most once in this many seconds per pod.
_MANY: Final = 200
_EVERY: Final = 0.0005
_NODES: Final = ("", CHANGED)  # the key of changed nodes
_COUNTS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
)
_TOLERATED: Final = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)


def daemon_tolerations(names: Names, spec: Object) -> list[Object]:
    """The tolerations of a daemon pod: those of its template, and those that keep it on a node with problems."""
    tolerations: list[Object] = list(spec.get("tolerations") or ())
    on_host = (("network-unavailable", NO_SCHEDULE),) if spec.get("hostNetwork") else ()
    for suffix, effect in (*_TOLERATED, *on_host):
        added = {"key": names.key(suffix, "node"), "operator": "Exists", "effect": effect}
        equal = [one for one in tolerations if _same_toleration(one, added)]
        if not equal:
            tolerations.append(added)
        elif added not in equal:
            tolerations = [added if one in equal else one for one in tolerations]
    return tolerations


def _same_toleration(one: Object, other: Object) -> bool:
    """Whether they tolerate the same taints, for any time."""
    return all(one.get(part, "") == other.get(part, "") for part in ("key", "operator", "value", "effect"))


class Placement:
    """Which nodes a pod template allows."""

    def __init__(self, names: Names, template: Object) -> None:
        spec = template["spec"]
        self._node = spec.get("nodeName", "")
        self._requirement = NodeRequirement.of_pod(spec)
        self._tolerations = daemon_tolerations(names, spec)

    def of(self, node: Object) -> tuple[bool, bool]:
        """Whether a pod should run on the node, and whether one that runs there may stay."""
        metadata = node["metadata"]
        name = metadata["name"]
        if self._node not in ("", name) or not self._requirement.matches(name, metadata.get("labels") or {}):
            return False, False
        taints = node["spec"].get("taints") or ()
        if untolerated(taints, self._tolerations, (NO_SCHEDULE, NO_EXECUTE)) is None:
            return True, True
        return False, untolerated(taints, self._tolerations, (NO_EXECUTE,)) is None


def target_node(pod: Object) -> str | None:
    """The node that a pod runs on, or was created for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one["key"] == "metadata.name" and one["operator"] == "In":
                return str(one["values"][0]) if len(one["values"]) == 1 else None
    return None


def pinned(affinity: Object | None, node: str) -> Object:
    """The affinity of a pod that runs only on this node."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    of_nodes = (affinity or {}).get("nodeAffinity") or {}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}
    return {**(affinity or {}), "nodeAffinity": {**of_nodes, **required}}


def template_generation(owner: Object) -> str | None:
    """The template generation, by which clients of older versions identify a template."""
    text = (owner["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    number = None if text is None else int64_of(text)
    return None if number is None else str(number)


def _oldest_first(pod: Object) -> tuple[bool, str, str]:
    metadata = pod["metadata"]
    return not pod["spec"].get("nodeName"), metadata["creationTimestamp"], metadata["name"]


class Backoff:
    """When a failed pod of a set may be replaced: at once, and then after pauses that double."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}  # by node: when, and the pause after it

    def remaining(self, node: str, now: float) -> float:
        """Seconds to wait; 0: the pod may be replaced, and the next pause starts."""
        last, pause = self._last.get(node, (0.0, 0.0))
        if node in self._last and now - last <= 2 * _LONGEST_PAUSE:
            if now - last < pause:
                return pause - (now - last)
            self._last[node] = now, min(2 * pause, _LONGEST_PAUSE)
        else:
            self._last[node] = now, _FIRST_PAUSE
        return 0.0


@dataclass(slots=True)
class Work:
    """Nodes that need a pod, and pods to delete."""

    nodes: list[str] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    failed: list[tuple[str, Object]] = field(default_factory=list)  # nodes and failed pods, among `pods`
    due: float | None = None  # seconds until a failed pod may be replaced

    def __bool__(self) -> bool:
        return bool(self.nodes or self.pods)


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot of a set: all nodes in order, its pods by node, and which pods have its current template."""

    owner: Object
    places: Mapping[
        str, tuple[bool, bool]
    ]  # per node: whether a pod should run there, and whether one may stay
    pods: Mapping[str, Sequence[Object]]
    hash: str
    generation: str | None  # of the template
    now: int

    def is_updated(self, pod: Object) -> bool:
        labels = pod["metadata"].get("labels") or {}
        if labels.get(REVISION_LABEL) == self.hash:
            return True
        return self.generation is not None and labels.get(_GENERATION_LABEL) == self.generation

    def is_available(self, pod: Object) -> bool:
        return available_in(pod, self.owner["spec"].get("minReadySeconds", 0), self.now) == 0

    def next_available(self) -> Steps[float | None]:
        """In how many seconds the next pod becomes available; None if none is waiting."""
        min_ready = self.owner["spec"].get("minReadySeconds", 0)
        if not min_ready:
            return None
        first = None
        for pods in self.pods.values():
            for pod in pods:
                due = available_in(pod, min_ready, self.now)
                if due and (first is None or due < first):
                    first = due
            yield
        return first

    @property
    def wanted(self) -> list[str]:
        """The nodes that should run a pod."""
        return [name for name, (should_run, _) in self.places.items() if should_run]

    def limit(self, part: str, count: int) -> int:
        """maxSurge or maxUnavailable, for this number of nodes."""
        strategy = self.owner["spec"]["updateStrategy"]
        if strategy.get("type") != "RollingUpdate":
            return 0
        allowed = (strategy.get("rollingUpdate") or {}).get(part, 0)
        if isinstance(allowed, str):
            return -(-number_in(allowed) * count // 100)  # rounded up
        return int(allowed)


def manage(view: View, wait_for: Callable[[str], float]) -> Steps[Work]:
    """Give each wanted node one pod, and remove surplus and failed pods, and those that may not stay.

    `wait_for` returns how many seconds a node has to wait until its failed pod is replaced.
    """
    work = Work()
    surges = view.limit("maxSurge", 1) > 0
    for name, (should_run, may_stay) in view.places.items():
        yield
        pods = view.pods.get(name)
        if should_run and pods is None:
            work.nodes.append(name)
        elif may_stay:
            running = _without_failed(work, name, pods or (), wait_for)
            if surges and should_run and not running:
                work.nodes.append(name)
            elif len(running) > 1:
                work.pods += _surplus_of_surge(view, running) if surges else running[1:]
        else:
            work.pods += [pod for pod in pods or () if not is_terminating(pod)]
    for name, pods in view.pods.items():
        yield
        if name not in view.places:
            # Nobody else would delete them: they never run.
            work.pods += [pod for pod in pods if not pod["spec"].get("nodeName")]
    return work


def _without_failed(
    work: Work, node: str, pods: Sequence[Object], wait_for: Callable[[str], float]
) -> list[Object]:
    """The pods that are neither failed nor terminating, oldest first; failed ones are added to the work."""
    running: list[Object] = []
    for pod in pods:
        if is_terminating(pod):
            continue
        if pod["status"].get("phase") != "Failed":
            running.append(pod)
        elif wait := wait_for(node):
            work.due = wait if work.due is None else min(work.due, wait)
        else:
            work.failed.append((node, pod))
            work.pods.append(pod)
    return sorted(running, key=_oldest_first) if len(running) > 1 else running


def _surplus_of_surge(view: View, running: Sequence[Object]) -> list[Object]:
    """All but the oldest pod of the current and of an old template; the old one too, if it is not needed."""
    new = [pod for pod in running if (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == view.hash]
    old = [pod for pod in running if pod not in new]
    surplus = new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or view.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def roll_out(view: View, features: frozenset[str]) -> Steps[Work]:
    """The next step of a rolling update."""
    old = yield from chosen(view.pods.values(), lambda pods: not all(map(view.is_updated, pods)))
    if not old:
        return Work()
    wanted = view.wanted
    surge, unavailable = view.limit("maxSurge", len(wanted)), view.limit("maxUnavailable", len(wanted))
    if wanted and not surge and not unavailable:
        unavailable = 1
    nodes = dict.fromkeys([*view.pods, *wanted])
    if surge:
        return (yield from _surge(view, nodes, set(wanted), surge))
    return (yield from _replace(view, nodes, unavailable, NODES_WITH_UNAVAILABLE_PODS in features))


def _pair(view: View, node: str) -> tuple[Object | None, Object | None] | None:
    """The new and the old pod of a node; None if it has several of one of them."""
    staying = [pod for pod in view.pods.get(node, ()) if not is_terminating(pod)]
    new = [pod for pod in staying if view.is_updated(pod)]
    old = [pod for pod in staying if not view.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None), (old[0] if old else None)


def _replace(view: View, nodes: Iterable[str], limit: int, counts_useless: bool) -> Steps[Work]:
    """Delete old pods: all that are unavailable, and as many others as may be unavailable at a time."""
    unavailable = 0
    useless, candidates = list[Object](), list[Object]()
    for node in nodes:
        yield
        match _pair(view, node):
            case (None, old) if old is not None:
                (candidates if view.is_available(old) else useless).append(old)
            case (new, None) if new is not None:
                unavailable += not view.is_available(new)
            case _:
                unavailable += 1
    unavailable += len(useless) if counts_useless else 0
    return Work(pods=useless + candidates[: max(limit - unavailable, 0)])


def _surge(view: View, nodes: Iterable[str], wanted: set[str], limit: int) -> Steps[Work]:
    """Create a new pod next to each old one, and delete the old one when the new one is available."""
    surging = available = 0
    gone, leaving = list[Object](), list[Object]()
    replaced, candidates = list[str](), list[str]()
    for node in nodes:
        yield
        pair = _pair(view, node)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        counted = old or new
        available += counted is not None and view.is_available(counted)
        if old is None:
            continue
        if new is not None:
            if view.is_available(new):
                gone.append(old)
            else:
                surging += 1
        elif not view.is_available(old):
            if node in wanted:
                replaced.append(node)
            else:
                gone.append(old)
        elif node in wanted:
            candidates.append(node)
        else:
            leaving.append(old)
    # A pod on a node where it may no longer run is deleted when another node has one in its place.
    gone += leaving[: max(available - len(wanted), 0)]
    return Work(replaced + candidates[: max(limit - surging, 0)], gone)


def counts_of(view: View) -> Steps[Object]:
    """The counts of the status; of two pods on a node, the older one counts."""
    counts = dict.fromkeys(_COUNTS, 0)
    for name, (should_run, _) in view.places.items():
        yield
        pods = view.pods.get(name)
        if not should_run:
            counts["numberMisscheduled"] += bool(pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if not pods:
            continue
        counts["currentNumberScheduled"] += 1
        pod = min(pods, key=_oldest_first) if len(pods) > 1 else pods[0]
        counts["numberReady"] += is_ready(pod)
        counts["numberAvailable"] += view.is_available(pod)
        counts["updatedNumberScheduled"] += view.is_updated(pod)
    counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    return counts


@dataclass(slots=True)
class _Known:
    """The controller's state of a set."""

    uid: str
    generation: int
    placement: Placement
    places: dict[str, tuple[bool, bool]]  # of each node
    backoff: Backoff = field(default_factory=Backoff)
    observed: int = 0  # the generation that `backoff` belongs to
    passed: float = -1.0  # when it was last checked


class DaemonSets(WorkloadController):
    name, account, component = "daemonset", "daemon-set-controller", "daemonset-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sets = self.keyed_by("daemonsets.apps")
        self._pods = self.dependents("pods", self._sets)
        self._places = self._pods.index(_place_of)
        self._revisions = self.dependents("controllerrevisions.apps", self._sets)
        self._nodes = parts.cache.collection("nodes")
        self._nodes.listen(self._node_changed)
        self._pod_claims = Claims(self.client, self._sets, self._pods)
        self._revision_claims = Claims(self.client, self._sets, self._revisions)
        self._writer = PodWriter(self.client, self.recorder, self._sets.definition, self._pods.definition)
        self._known: dict[Key, _Known] = {}
        self._changed_nodes: dict[str, None] = {}

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._known.clear()  # built while nodes were still being read
        await super().catch_up()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _placed_by(old) == _placed_by(new):
            return
        node = new if new is not None else old
        assert node is not None
        self._changed_nodes[node["metadata"]["name"]] = None
        self.queue.add(_NODES)

    def _find_sets_for_nodes(self) -> Steps[None]:
        """Find the sets that changed nodes concern."""
        names, self._changed_nodes = tuple(self._changed_nodes), {}
        only_for_work = NODES_THAT_NEED_WORK in self.release.features
        for part in parts_of(self._known.items()):
            for key, known in part:
                concerned = False
                for name in names:
                    changed = self._place(known, name)
                    if only_for_work and name in known.places:
                        concerned |= self._needs_work(key, known, name)
                    else:
                        concerned |= changed
                    yield
                if concerned:
                    self.queue.add(key)

    def _needs_work(self, key: Key, known: _Known, name: str) -> bool:
        """Whether a set has to look at a changed node. Until then its status keeps the counts that it has."""
        owner = self._sets.get(*key)
        if owner is None:
            return False
        should_run, may_stay = known.places[name]
        if self._places.get((owner["metadata"]["uid"], name)):
            return not may_stay or owner["status"].get("numberMisscheduled", 0) > 0
        return should_run

    def _place(self, known: _Known, name: str) -> bool:
        """Decide again whether a pod should run on a node; returns whether that has changed."""
        node = self._nodes.get("", name)
        before = known.places.get(name, (False, False))
        if node is None:
            known.places.pop(name, None)
        else:
            known.places[name] = known.placement.of(node)
        return before != known.places.get(name, (False, False))

    def _remember(self, owner: Object) -> Steps[_Known]:
        key, metadata = key_of(owner), owner["metadata"]
        uid, generation = metadata["uid"], metadata.get("generation", 0)
        known = self._known.get(key)
        if known is None or known.uid != uid or known.generation != generation:
            # From here on it follows changes of nodes, also while it is filled.
            placement = Placement(self.names, owner["spec"]["template"])
            known = self._known[key] = _Known(uid, generation, placement, {})
            for part in parts_of(self._nodes):
                for node in part:
                    self._place(known, node["metadata"]["name"])
                yield
        observed = owner["status"].get("observedGeneration", 0)
        if known.observed != observed:
            known.observed, known.backoff = observed, Backoff()
        return known

    async def reconcile(self, key: Key) -> None:
        if key == _NODES:
            await in_turns(self._find_sets_for_nodes())
            return
        if key[1] == CHANGED:
            await self.find_owners_of_changed(key[0])
            return
        owner = self._sets.get(*key)
        if owner is None:
            self._known.pop(key, None)
            return
        if not owner["spec"]["selector"]:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._event(owner, "SelectingAll", message)
            return
        # If it is being deleted its revisions may be gone, and nothing is known about its pods.
        if is_terminating(owner):
            return
        known = await in_turns(self._remember(owner))
        if self._is_too_early(key, known):
            return
        revised = await self._revise(owner)
        if revised is None:
            return
        hashed, old = revised
        view = await self._claimed(owner, known, hashed)
        if view is None:
            return
        work = await in_turns(self._work(view, known.backoff))
        failure = await self._carry_out(view, work)
        if failure is None:
            await self._forget_revisions(view, old)
        if work or failure is not None:
            view = (await in_turns(self._view(owner, known, hashed)))[0]
        if view is not None:
            await self._write_status(view)
        if failure is not None:
            raise failure

    def _is_too_early(self, key: Key, known: _Known) -> bool:
        """Whether to wait: while many pods change one after the other, a set is checked only now and then."""
        now = trio.current_time()
        count = len(self._pods.controlled_by(known.uid))
        due = known.passed + count * _EVERY
        if count >= _MANY and now < due:
            self.queue.add_after(key, due - now)
            return True
        known.passed = now
        return False

    async def _claimed(self, owner: Object, known: _Known, hashed: str) -> View | None:
        """The current state, after adopting pods that match and releasing those that do not."""
        view, unmatched = await in_turns(self._view(owner, known, hashed))
        orphans = await in_turns(
            chosen(
                self._pods.uncontrolled(owner["metadata"]["namespace"]),
                lambda pod: _is_selected(owner, pod) and not is_terminating(pod),
            )
        )
        if unmatched or orphans:
            await self._pod_claims.exchange(owner, orphans, unmatched)
            view, _ = await in_turns(self._view(owner, known, hashed))
        return view

    def _view(self, owner: Object, known: _Known, hashed: str) -> Steps[tuple[View | None, list[Object]]]:
        """The current state, and pods of the set that it no longer selects.

        None: the set has changed, and its key was added again.
        """
        current = self._sets.get(*key_of(owner))
        if current is None or _identity(current) != _identity(owner):
            return None, []
        pods: dict[str, list[Object]] = {}
        unmatched = []
        places = dict(known.places)  # at the same moment as the pods
        for pod in tuple(self._pods.controlled_by(owner["metadata"]["uid"])):
            yield
            if not _is_selected(owner, pod):
                unmatched.append(pod)
            elif (node := target_node(pod)) is not None:
                pods.setdefault(node, []).append(pod)
        return View(current, places, pods, hashed, template_generation(current), self.now()), unmatched

    def _work(self, view: View, backoff: Backoff) -> Steps[Work]:
        work = yield from manage(view, partial(backoff.remaining, now=view.now / 1_000_000))
        if work.due is not None:
            self.queue.add_after(key_of(view.owner), work.due)
        for node, pod in work.failed:
            name = "/".join(key_of(pod))
            message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            self._event(view.owner, "FailedDaemonPod", message)
        if not work and view.owner["spec"]["updateStrategy"].get("type") == "RollingUpdate":
            return (yield from roll_out(view, self.release.features))
        return work

    async def _carry_out(self, view: View, work: Work) -> RequestError | None:
        errors: list[RequestError] = []
        if work.nodes:
            errors += await self._writer.create(view.owner, self._new_pods(view, work.nodes[:_BURST]))
            errors = [error for error in errors if not is_namespace_terminating(error)]
        if work.pods:
            errors += await self._writer.delete(view.owner, work.pods[:_BURST])
        return errors[0] if errors else None

    def _new_pods(self, view: View, nodes: Sequence[str]) -> list[Object]:
        owner = view.owner
        pod = pod_from_template(owner["spec"]["template"], self._sets.definition, owner)
        labels = {**(pod["metadata"].get("labels") or {}), REVISION_LABEL: view.hash}
        if view.generation is not None:
            labels[_GENERATION_LABEL] = view.generation
        metadata = {**pod["metadata"], "labels": labels}
        affinity = pod["spec"].get("affinity")
        tolerations = daemon_tolerations(self.names, pod["spec"])
        spec = POD_SPEC.arranged({**pod["spec"], "affinity": {}, "tolerations": tolerations})
        return [
            {**pod, "metadata": metadata, "spec": {**spec, "affinity": pinned(affinity, node)}}
            for node in nodes
        ]

    async def _write_status(self, view: View) -> None:
        due = await in_turns(view.next_available())
        if due is not None:
            self.queue.add_after(key_of(view.owner), due)
        counts = await in_turns(counts_of(view))
        status, generation = view.owner["status"], view.owner["metadata"]["generation"]
        is_known = status.get("observedGeneration", 0) >= generation
        if is_known and all(status.get(part, 0) == number for part, number in counts.items()):
            return
        counted = {**status, **counts, "observedGeneration": generation}
        stored = stored_status(self._sets.definition, counted)
        await self.client.replace(self._sets.definition, {**view.owner, "status": stored}, "status")

    def _event(self, owner: Object, reason: str, message: str) -> None:
        self.recorder.event(self._sets.definition, owner, "Warning", reason, message)

    async def _revise(self, owner: Object) -> tuple[str, list[Object]] | None:
        """The hash of the current template, by which pods refer to it, and the revisions of old ones.

        None: the set has changed, and its key was added again.
        """
        revisions = in_order(await self._revision_claims.claim(owner, owner["spec"]["selector"]))
        data, holding = await self.work_on(owner, _compared(owner, revisions))
        old, equal = list[Object](), list[Object]()
        for revision, is_equal in zip(revisions, holding, strict=True):
            (equal if is_equal else old).append(await self._labelled(revision))
        number = max((one["revision"] for one in old), default=0) + 1
        if equal:
            current = equal[-1]
            await self._merge(owner, current, equal[:-1])
            if current["revision"] < number:
                await self._replace_revision({**current, "revision": number})
        else:
            created = await self._create_revision(owner, data, number)
            if created is None:
                return None
            current = created
        return current["metadata"]["labels"][REVISION_LABEL], old

    async def _labelled(self, revision: Object) -> Object:
        """A revision with its label; one from before there were labels gets its name."""
        metadata = revision["metadata"]
        labels = metadata.get("labels") or {}
        if REVISION_LABEL in labels:
            return revision
        labels = {**labels, REVISION_LABEL: metadata["name"]}
        return await self._replace_revision({**revision, "metadata": {**metadata, "labels": labels}})

    async def _replace_revision(self, changed: Object) -> Object:
        await self.client.replace(self._revisions.definition, changed)
        return self._revisions.get(*key_of(changed)) or changed

    async def _merge(self, owner: Object, kept: Object, others: Sequence[Object]) -> None:
        """Delete other revisions with the same data; all pods of the set get the label of the one that stays."""
        hashed = kept["metadata"]["labels"][REVISION_LABEL]
        patch = {"metadata": {"labels": {REVISION_LABEL: hashed}}}
        for other in others:
            for pod in tuple(self._pods.controlled_by(owner["metadata"]["uid"])):
                if (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) != hashed:
                    await self.client.patch(self._pods.definition, *key_of(pod), patch)
            await self.client.delete(self._revisions.definition, *key_of(other), DeleteOptions())

    async def _create_revision(self, owner: Object, data: bytes, number: int) -> Object | None:
        collisions = owner["status"].get("collisionCount")
        template = owner["spec"]["template"]
        hashed = await self.work_on(template, template_hash(template, collisions, self.release))
        namespace, name = owner["metadata"]["namespace"], f"{owner['metadata']['name']}-{hashed}"
        new = new_revision(self._sets.definition, owner, data, number, {REVISION_LABEL: hashed}, name)
        try:
            await self.client.create(self._revisions.definition, namespace, new)
        except AlreadyExists:
            existing = self._revisions.get(namespace, name)
            if existing is not None and holds(existing, data):
                return await self._labelled(existing)
            status = {**owner["status"], "collisionCount": (collisions or 0) + 1}
            stored = stored_status(self._sets.definition, status)
            await self.client.replace(self._sets.definition, {**owner, "status": stored}, "status")
            return None
        return new

    async def _forget_revisions(self, view: View, old: Sequence[Object]) -> None:
        """Delete the oldest revisions beyond revisionHistoryLimit that no pod uses."""
        surplus = len(old) - view.owner["spec"].get("revisionHistoryLimit", 10)
        if surplus <= 0:
            return
        uid = view.owner["metadata"]["uid"]
        labels = (pod["metadata"].get("labels") or {} for pod in self._pods.controlled_by(uid))
        used = {one.get(REVISION_LABEL) for one in labels}
        unused = [one for one in old if one["metadata"]["labels"][REVISION_LABEL] not in used]
        for one in unused[:surplus]:
            await self.client.delete(self._revisions.definition, *key_of(one), DeleteOptions())


def _compared(owner: Object, revisions: Sequence[Object]) -> Steps[tuple[bytes, list[bool]]]:
    """The data of the revision of the current template, and which revisions hold them."""
    data, holding = snapshot(owner), list[bool]()
    for revision in revisions:
        yield
        holding.append(holds(revision, data))
    return data, holding


def _is_selected(owner: Object, pod: Object) -> bool:
    return label_selector_matches(owner["spec"]["selector"], pod["metadata"].get("labels") or {})


def _place_of(pod: Object) -> tuple[tuple[str, str], ...]:
    """The set and the node of a bound daemon pod."""
    owner, node = controller_of(pod), pod["spec"].get("nodeName")
    return ((owner["uid"], node),) if node and owner is not None and owner["kind"] == "DaemonSet" else ()


def _placed_by(node: Object) -> tuple[object, object]:
    """The facts of a node that decide which pods it takes."""
    return node["metadata"].get("labels"), node["spec"].get("taints")


def _identity(owner: Object) -> tuple[str, int]:
    return owner["metadata"]["uid"], owner["metadata"]["generation"]
