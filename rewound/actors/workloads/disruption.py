"""PodDisruptionBudgets: how many of the pods that a budget selects may be evicted now.

The status counts healthy pods, and how many there must be: a number, or a percentage of the pods that the controllers
of the selected pods should have. Evictions (`actors/resource/evictions.py`) decrement `disruptionsAllowed` and add the
pod to `disruptedPods`, where it counts as gone for two minutes at most. If the controllers of pods have no scale,
nothing may be evicted, and a condition says why.

If a pod still exists two minutes after its condition DisruptionTarget announced its end, it loses that condition. Since
1.26 those that have finished, or that a kubelet ends, keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import LabelMatcher
from rewound.actors.kinds.declaration.scale import go_selector_text
from rewound.actors.kinds.declaration.workloads import number_in
from rewound.actors.kinds.policy import BUDGET_STATUS
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.actors.versions.features import LASTING_ANNOUNCEMENTS, UNMANAGED_PODS
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import CHANGED, OwnerFinder, Pace, Parts, WorkloadController
from rewound.actors.workloads.pods import condition_of, is_finished, is_ready, is_terminating

SECOND: Final = 1_000_000
PATIENCE: Final = 120 * SECOND  # for a pod to be deleted after it was evicted, or its end was announced
# Before the name of a pod in a key: its condition must be checked; no budget has such a name.
POD: Final = "pod/"
INTERVAL: Final = 0.1  # seconds between two passes over the pods of a namespace with many
UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
ALLOWED, TARGET = "DisruptionAllowed", "DisruptionTarget"


class NoScale(Exception):
    """The expected number of pods is unknown; the text says why."""


class Disruption(WorkloadController):
    name, account, component = "disruption", "disruption-controller", "controllermanager"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._registry, self._journal = parts.context.registry, parts.context.journal
        self._budgets = self.keyed_by("poddisruptionbudgets.policy")
        self._pods = self.cache.collection("pods")
        self._sets = self.cache.collection("replicasets.apps")
        self._scaled = {
            ("", "ReplicationController"): self.cache.collection("replicationcontrollers"),
            ("apps", "Deployment"): self.cache.collection("deployments.apps"),
            ("apps", "ReplicaSet"): self._sets,
            ("apps", "StatefulSet"): self.cache.collection("statefulsets.apps"),
        }
        self._pace = Pace(self.queue, INTERVAL)
        self._owner_finder = OwnerFinder(
            self.queue, self._budgets, _selecting, self._selected, self._queue_budgets
        )
        self._pods.listen(self._pod_changed)

    async def catch_up(self) -> None:
        await super().catch_up()
        await self._pods.visit(self._queue_target_check)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        stored = new if new is not None else old
        assert stored is not None
        if new is not None:
            self._queue_target_check(new)
        if not self._budgets.in_namespace(stored["metadata"]["namespace"]):
            return
        if old is not None and new is not None and _relevant_facts(old) == _relevant_facts(new):
            return
        self._owner_finder.changed(old, new)

    def _queue_target_check(self, pod: Object) -> None:
        if condition_of(pod, TARGET) is not None:
            namespace, name = key_of(pod)
            self.queue.add((namespace, POD + name))

    def _selected(self, pod: Object, found: Sequence[Object]) -> None:
        """Queue the budgets that select a changed pod; it should be one."""
        self._queue_budgets(pod, found)
        if len(found) > 1:
            namespace, name = map(quoted, key_of(pod))
            chosen_one = quoted(found[0]["metadata"]["name"])
            text = f"Pod {namespace}/{name} matches multiple PodDisruptionBudgets.  Chose {chosen_one} arbitrarily."
            self._report(self._pods.definition, pod, "Warning", "MultiplePodDisruptionBudgets", text)

    def _queue_budgets(self, _: Object, budgets: Sequence[Object]) -> None:
        for budget in budgets:
            self.queue.add(key_of(budget))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if name == CHANGED:
            await self._owner_finder.find_deferred(namespace)
            return
        if name.startswith(POD):
            pod = self._pods.get(namespace, name.removeprefix(POD))
            if pod is not None:
                await self._end_announcement(key, pod)
            return
        budget = self._budgets.get(*key)
        if budget is None:
            self._pace.forget(key)
        elif not self._pace.is_too_soon(
            key, len(self._pods.in_namespace(namespace)), len(self._budgets.in_namespace(namespace))
        ):
            try:
                await self._update(key, budget)
            except NotFound:
                return  # it was deleted in the meantime

    async def _update(self, key: Key, budget: Object) -> None:
        namespace = key[0]
        pods = await in_turns(chosen(self._pods.in_namespace(namespace), _selecting(budget)))
        if not pods:
            self._report(self._budgets.definition, budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected, desired = await in_turns(self._expected(budget, pods))
        except NoScale as why:
            text = f"Failed to calculate the number of expected pods: {why}"
            reason = "CalculateExpectedPodCountFailed"
            self._report(self._budgets.definition, budget, "Warning", reason, text)
            await self._write(budget, self._failed_status(budget, str(why)))
            return
        if UNMANAGED_PODS in self.release.features and await in_turns(self._has_unmanaged(budget, pods)):
            text = UNMANAGED.format(go_selector_text(budget["spec"].get("selector")))
            self._report(self._budgets.definition, budget, "Warning", "UnmanagedPods", text)
        now = self.now()
        disrupted = await in_turns(self._disrupted(budget, pods, now))

        def is_healthy(pod: Object) -> bool:
            gone = is_terminating(pod) or pod["metadata"]["name"] in disrupted
            return not gone and is_ready(pod)

        healthy = len(await in_turns(chosen(pods, is_healthy)))
        await self._write(budget, self._status(budget, healthy, desired, expected, disrupted))
        if disrupted:
            left = min(map(micros_of, disrupted.values())) + PATIENCE - now
            self.queue.add_after(key, left / SECOND + 0.001)

    def _status(
        self, budget: Object, healthy: int, desired: int, expected: int, disrupted: dict[str, str]
    ) -> Object:
        allowed = max(0, healthy - desired) if expected > 0 else 0
        counts = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        generation = budget["metadata"].get("generation", 0)
        condition = {
            "type": ALLOWED,
            "status": "True" if allowed else "False",
            "observedGeneration": generation,
            "lastTransitionTime": self.now_text(),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        known = condition_of(budget, ALLOWED)
        same = ("status", "observedGeneration")
        if known is not None and all(known.get(part) == condition[part] for part in same):
            condition = known
        status = {"observedGeneration": generation, **counts, "conditions": [condition]}
        return {**status, "disruptedPods": disrupted} if disrupted else status

    def _failed_status(self, budget: Object, why: str) -> Object:
        status = budget["status"]
        observed = status.get("observedGeneration", 0)
        known = condition_of(budget, ALLOWED)
        since = known["lastTransitionTime"] if known and known["status"] == "False" else self.now_text()
        condition = {
            "type": ALLOWED,
            "status": "False",
            **({"observedGeneration": observed} if observed else {}),
            "lastTransitionTime": since,
            "reason": "SyncFailed",
            "message": why,
        }
        others = [one for one in status.get("conditions") or () if one["type"] != ALLOWED]
        return {**status, "disruptionsAllowed": 0, "conditions": [*others, condition]}

    async def _write(self, budget: Object, status: Object) -> None:
        counted = dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0)
        status = BUDGET_STATUS.arranged({**counted, **status})
        if status != budget["status"]:
            await self.client.replace(self._budgets.definition, {**budget, "status": status}, "status")

    def _disrupted(self, budget: Object, pods: Sequence[Object], now: int) -> Steps[dict[str, str]]:
        """The evicted pods that have yet to be deleted."""
        evicted = budget["status"].get("disruptedPods") or {}
        found: dict[str, str] = {}
        for pod in (yield from chosen(pods, lambda one: one["metadata"]["name"] in evicted)):
            namespace, name = key_of(pod)
            if is_terminating(pod):
                continue
            if micros_of(evicted[name]) + PATIENCE >= now:
                found[name] = evicted[name]
            else:
                # v1.25, too, names the namespace in place of the budget.
                text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                self._report(self._pods.definition, pod, "Warning", "NotDeleted", text)
        return dict(sorted(found.items()))

    def _expected(self, budget: Object, pods: Sequence[Object]) -> Steps[tuple[int, int]]:
        """The expected number of pods, and how many must be healthy. Raises NoScale if that is unknown."""
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = yield from self._scale(pods)
            return expected, max(0, expected - _number(spec["maxUnavailable"], expected))
        available = spec.get("minAvailable", 0)
        if isinstance(available, int):
            return len(pods), available
        expected = yield from self._scale(pods)
        return expected, _number(available, expected)

    def _has_unmanaged(self, budget: Object, pods: Sequence[Object]) -> Steps[bool]:
        """Whether pods lack a controller, and the budget depends on what controllers want."""
        spec = budget["spec"]
        if "maxUnavailable" not in spec and isinstance(spec.get("minAvailable", 0), int):
            return False
        return bool((yield from chosen(pods, lambda pod: controller_of(pod) is None)))

    def _scale(self, pods: Sequence[Object]) -> Steps[int]:
        """The total scale of the controllers of these pods; a pod without a controller counts as none."""
        references: dict[str, tuple[Object, Object]] = {}
        for part in parts_of(pods):
            for pod in part:
                reference = controller_of(pod)
                if reference is not None:
                    references.setdefault(reference["uid"], (reference, pod))
            yield
        scales: dict[str, int] = {}
        for reference, pod in references.values():
            uid, replicas = self._scale_of(reference, pod)
            scales[uid] = replicas
            yield
        return sum(scales.values())

    def _scale_of(self, reference: Object, pod: Object) -> tuple[str, int]:
        """The uid of the object that scales a pod, and its scale."""
        namespace, name = key_of(pod)
        for one in self._scaling(reference, namespace):
            known = self._scaled.get((_group_of(one), one["kind"]))
            if known is None:
                replicas = self._replicas_of(one, namespace)
            else:
                owner = known.get(namespace, one["name"])
                is_same = owner is not None and owner["metadata"]["uid"] == one["uid"]
                replicas = owner["spec"].get("replicas", 1) if owner is not None and is_same else None
            if replicas is not None:
                return one["uid"], replicas
        raise NoScale(f"found no controllers for pod {quoted(name)}")

    def _scaling(self, reference: Object, namespace: str) -> Iterator[Object]:
        """The object that scales the pods: the Deployment of a ReplicaSet, or the controller itself."""
        if (_group_of(reference), reference["kind"]) == ("apps", "ReplicaSet"):
            owner = self._sets.get(namespace, reference["name"])
            above = None if owner is None else controller_of(owner)
            if above is not None and above["kind"] == "Deployment":
                yield above
                return
        yield reference

    def _replicas_of(self, reference: Object, namespace: str) -> int | None:
        """The scale by the scale subresource; None if the object does not exist."""
        version, kind = reference["apiVersion"], reference["kind"]
        definition = self._registry.current.of_kind(version, kind)
        if definition is None:
            raise NoScale(f"no matches for kind {quoted(kind)} in version {quoted(version)}")
        scale = definition.subresource("scale")
        if scale is None or scale.view is None or scale.view.storage.conversion is None:
            raise NoScale(f"{definition.resource} does not implement the scale subresource")
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(definition.type_name), namespace, reference["name"])
        if row is None:
            return None
        stored = decode(row.body)
        try:
            if scale.check_read is not None:
                scale.check_read(stored)
        except RequestError as error:
            raise NoScale(str(error)) from None
        if stored["metadata"]["uid"] != reference["uid"]:
            return None
        replicas: int = scale.view.storage.conversion.from_storage(stored)["spec"].get("replicas", 0)
        return replicas

    async def _end_announcement(self, key: Key, pod: Object) -> None:
        condition = condition_of(pod, TARGET)
        if condition is None or condition["status"] != "True" or is_terminating(pod):
            return
        lasts = is_finished(pod) or condition.get("reason") == "TerminationByKubelet"
        if lasts and LASTING_ANNOUNCEMENTS in self.release.features:
            return
        since = condition.get("lastTransitionTime")
        left = 0 if since is None else micros_of(since) + PATIENCE - self.now()
        if left > 0:
            self.queue.add_after(key, left / SECOND)
            return
        changed = {"type": TARGET, "status": "False", "lastTransitionTime": self.now_text()}
        replaced = {**dict.fromkeys(condition), **changed}  # None: remove
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [replaced]}}
        try:
            await self.client.patch(self._pods.definition, *key_of(pod), patch, "strategic", "status")
        except (NotFound, Conflict):
            return

    def _report(
        self, definition: Definition, about: Object, event_type: str, reason: str, message: str
    ) -> None:
        self.recorder.event(definition, about, event_type, reason, message)


def _selecting(budget: Object) -> Callable[[Object], bool]:
    """A predicate for the pods that the budget selects."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return lambda pod: False
    matcher = LabelMatcher(selector)
    return lambda pod: matcher.matches(pod["metadata"].get("labels") or {})


def _relevant_facts(pod: Object) -> tuple[object, ...]:
    """The facts of a pod that a budget depends on."""
    metadata = pod["metadata"]
    return metadata.get("labels"), metadata.get("ownerReferences"), is_terminating(pod), is_ready(pod)


def _group_of(reference: Object) -> str:
    group, slash, _ = str(reference["apiVersion"]).partition("/")
    return group if slash else ""


def _number(given: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(given, int):
        return given
    return -(-number_in(given) * total // 100)
