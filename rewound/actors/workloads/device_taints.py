"""The device taint eviction controller: deletes pods whose devices have a NoExecute taint that they do not tolerate.

Taints are in ResourceSlices, or come from DeviceTaintRules, which select devices by driver, pool and name. A claim
tolerates a taint by the tolerations that were copied into its allocation, forever or for some seconds after the taint
was added. A pod is evicted when the first of its claims says so. The condition `EvictionInProgress` of a rule reports
how many pods it evicts; it is written at most every ten seconds. A rule with the effect None evicts nothing, and its
condition says once what it would do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rewound.actors.errors import NotFound
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.selectors.nodes import NO_EXECUTE, tolerates
from rewound.actors.versions.features import DEVICE_TAINT_RULES
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import condition_of, is_terminating
from rewound.actors.workloads.resource_claims import claim_name, is_made_for, is_reserved_for, made_claims

_SECOND: Final = 1_000_000
_STATUS_PERIOD: Final = 10 * _SECOND  # between two writes of the status of a rule
_CONDITION: Final = "EvictionInProgress"
_RULE, _POOL = "rule/", "pool/"  # before the name, in keys without a namespace


@dataclass(frozen=True, slots=True)
class Eviction:
    """When a pod is evicted, in microseconds since 1970, and the rules because of which it is."""

    when: int
    rules: frozenset[str] = frozenset()  # their uids


def _sooner(one: Eviction | None, other: Eviction | None) -> Eviction | None:
    if one is None or other is None:
        return one or other
    return Eviction(min(one.when, other.when), one.rules | other.rules)


def _pools_of_claim(claim: Object) -> Iterator[tuple[str, str]]:
    """Driver and pool of the devices that a claim has, for an index."""
    yield from {(one["driver"], one["pool"]) for one in _devices_of(claim)}


def _devices_of(claim: Object) -> Iterable[Object]:
    found: Iterable[Object] = (claim["status"].get("allocation") or {}).get("devices", {}).get(
        "results"
    ) or ()
    return found


def _pool_of_slice(slice_: Object) -> tuple[tuple[str, str]]:
    return ((slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]),)


def _evicting_taints(slice_: Object | None) -> list[tuple[str, Object]]:
    devices = slice_["spec"].get("devices") or () if slice_ is not None else ()
    return [
        (device["name"], taint)
        for device in devices
        for taint in device.get("taints") or ()
        if taint["effect"] == NO_EXECUTE
    ]


def _selects(rule: Object, device: Object) -> bool:
    """Whether a rule taints an allocated device; one without a selector taints none."""
    selector = rule["spec"].get("deviceSelector")
    return selector is not None and all(
        selector.get(part) in (None, device[part]) for part in ("driver", "pool", "device")
    )


class DeviceTaintEviction(WorkloadController):
    name = account = "device-taint-eviction-controller"
    component = "device-taint-eviction-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        group = self.names.group("resource")
        self._pods = self.cache.collection("pods")
        self._claims = self.cache.collection(f"resourceclaims.{group}")
        self._slices = self.cache.collection(f"resourceslices.{group}")
        self._claims_of_pool = self._claims.index(_pools_of_claim)
        self._slices_of_pool = self._slices.index(_pool_of_slice)
        self._due: dict[Key, str] = {}  # the uids of pods whose eviction is planned
        self._evicted: dict[str, int] = {}  # pods that a rule has evicted, by its uid
        self._pods.listen(self._pod_changed)
        self._claims.listen(self._claim_changed)
        self._slices.listen(self._slice_changed)
        self._rules = None
        if DEVICE_TAINT_RULES in self.release.features:
            self._rules = self.cache.collection(f"devicetaintrules.{group}")
            self._rules.listen(self._rule_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._due.clear()
        self._evicted.clear()
        await self._claims.visit(lambda claim: self._claim_changed(None, claim))
        for rule in self._rules or ():
            self._add_rule(rule)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._due.pop(key_of(old), None)
        elif new["spec"].get("resourceClaims") and new["spec"].get("nodeName"):
            parts = ("spec", "nodeName"), ("status", "resourceClaimStatuses")
            if old is None or any(old[one].get(name) != new[one].get(name) for one, name in parts):
                self.queue.add(key_of(new))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        for claim in (old, new):
            for consumer in (claim["status"].get("reservedFor") or ()) if claim is not None else ():
                if consumer["resource"] == "pods" and not consumer.get("apiGroup"):
                    assert claim is not None
                    self.queue.add((claim["metadata"]["namespace"], consumer["name"]))

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        for slice_ in (old, new):
            if slice_ is None:
                continue
            # A slice without taints may end an older generation with taints.
            around = self._slices_of_pool.get(_pool_of_slice(slice_)[0])
            if any(_evicting_taints(one) for one in (old, new, *around)):
                driver, pool = _pool_of_slice(slice_)[0]
                self.queue.add(("", f"{_POOL}{driver}/{pool}"))

    def _rule_changed(self, old: Object | None, new: Object | None) -> None:
        rule = new if new is not None else old
        assert rule is not None
        if new is None:
            self._evicted.pop(rule["metadata"]["uid"], None)
        if old is None or new is None or old["spec"] != new["spec"]:
            self._add_rule(rule)

    def _add_rule(self, rule: Object) -> None:
        self.queue.add(("", f"{_RULE}{rule['metadata']['name']}"))

    async def reconcile(self, key: Key) -> None:
        namespace, name = key
        if namespace:
            await self._reconcile_pod(key)
        elif name.startswith(_POOL):
            driver, _, pool = name.removeprefix(_POOL).partition("/")
            await in_turns(self._add_consumers(self._claims_of_pool.get((driver, pool))))
        else:
            for planned in tuple(self._due):
                self.queue.add(planned)
            await in_turns(self._add_consumers(self._claims))
            await self._report_rule(name.removeprefix(_RULE))

    def _add_consumers(self, claims: Iterable[Object]) -> Steps[None]:
        for part in parts_of(claims):
            for claim in part:
                if "allocation" in claim["status"]:
                    self._claim_changed(None, claim)
            yield

    # When a pod is to be evicted.

    def _eviction_of(self, pod: Object, assumed: Object | None = None) -> Eviction | None:
        """`assumed`: a rule that counts as if its effect were NoExecute."""
        if not pod["spec"].get("nodeName"):
            return None
        found: Eviction | None = None
        made = made_claims(pod)
        for wanted in pod["spec"].get("resourceClaims") or ():
            try:
                claim = self._claims.get(pod["metadata"]["namespace"], claim_name(made, wanted) or "")
            except KeyError:
                continue
            if claim is None or not is_reserved_for(claim, pod):
                continue
            if "resourceClaimTemplateName" in wanted and not is_made_for(claim, pod):
                continue
            for device in _devices_of(claim):
                for taint, rule in self._taints_of(device, assumed):
                    found = _sooner(found, _eviction_by(device, taint, rule))
        return found

    def _taints_of(self, device: Object, assumed: Object | None) -> Iterator[tuple[Object, str]]:
        """The NoExecute taints of an allocated device, each with the uid of its rule, if it is of one."""
        slices = self._slices_of_pool.get((device["driver"], device["pool"]))
        newest = max((one["spec"]["pool"]["generation"] for one in slices), default=0)
        for one in slices:
            if one["spec"]["pool"]["generation"] == newest:
                for name, taint in _evicting_taints(one):
                    if name == device["device"]:
                        yield taint, ""
        for rule in self._rules or ():
            taint = rule["spec"]["taint"]
            if rule is assumed:
                taint = {**taint, "effect": NO_EXECUTE}
            if taint["effect"] == NO_EXECUTE and _selects(rule, device):
                yield taint, rule["metadata"]["uid"]

    # Pods.

    async def _reconcile_pod(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or is_terminating(pod):
            self._due.pop(key, None)
            return
        eviction = self._eviction_of(pod)
        if eviction is None:
            if self._due.pop(key, None) == pod["metadata"]["uid"]:
                self._record(pod, "Cancelling deletion")
            return
        self._due[key] = pod["metadata"]["uid"]
        self._report_later(eviction)
        left = eviction.when - self.now()
        if left > 0:
            self.queue.add_after(key, left / _SECOND)
            return
        await self._evict(pod)
        for rule in eviction.rules:
            self._evicted[rule] = self._evicted.get(rule, 0) + 1
        self._report_later(eviction)

    def _record(self, pod: Object, message: str) -> None:
        self.recorder.event(self._pods.definition, pod, "Normal", "DeviceTaintManagerEviction", message)

    async def _evict(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        self._record(pod, "Marking for deletion")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
        }
        before = condition_of(pod, "DisruptionTarget") or {}
        self._due.pop((namespace, name), None)
        try:
            if any(before.get(part) != value for part, value in condition.items()):
                condition["lastTransitionTime"] = self.now_text()
                patch = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
                await self.client.patch(self._pods.definition, namespace, name, patch, "strategic", "status")
            await self.client.delete(self._pods.definition, namespace, name, DeleteOptions(uid=uid))
        except NotFound:
            return

    # Rules.

    def _report_later(self, eviction: Eviction) -> None:
        for rule in self._rules or ():
            if rule["metadata"]["uid"] in eviction.rules:
                self.queue.add_after(("", f"{_RULE}{rule['metadata']['name']}"), _STATUS_PERIOD / _SECOND)

    async def _report_rule(self, name: str) -> None:
        rule = self._rules.get("", name) if self._rules is not None else None
        if rule is None or self._rules is None:
            return
        generation = rule["metadata"].get("generation", 0)
        before = condition_of({"status": rule.get("status") or {}}, _CONDITION)
        if before is not None and before.get("observedGeneration") == generation:
            left = micros_of(before["lastTransitionTime"]) + _STATUS_PERIOD - self.now()
            if left > 0:
                self.queue.add_after(("", f"{_RULE}{name}"), left / _SECOND)
                return
        condition = {"type": _CONDITION, **await in_turns(self._progress_of(rule))}
        condition["observedGeneration"] = generation
        if before is not None and all(before.get(part) == value for part, value in condition.items()):
            return
        definition = self._rules.definition
        applied = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": {"name": name, "uid": rule["metadata"]["uid"]},
            "status": {"conditions": [{**condition, "lastTransitionTime": seconds_text(self.now())}]},
        }
        try:
            await self.client.apply(definition, "", name, applied, "status")
        except NotFound:
            return

    def _progress_of(self, rule: Object) -> Steps[dict[str, Any]]:
        """Status, reason and message of the condition of a rule."""
        effect, evicted = rule["spec"]["taint"]["effect"], self._evicted.get(rule["metadata"]["uid"], 0)
        status, reason, sentences = "False", "", []
        if effect == NO_EXECUTE:
            pods, namespaces = yield from self._pending(rule)
            reason = "Completed" if evicted else "NotStarted"
            if pods:
                status, reason = "True", "PodsPendingEviction"
                need = "1 pod needs" if pods == 1 else f"{pods} pods need"
                sentences.append(f"{need} to be evicted in {_namespaces(namespaces)}.")
        elif effect == "None":
            reason = "NoEffect"
            published, allocated = yield from self._tainted(rule)
            pods, namespaces = yield from self._pending(rule, assumed=rule)
            sentences += [
                f"{_counted(published, 'published device')} selected.",
                f"{_counted(allocated, 'allocated device')} selected.",
                f"{_counted(pods, 'pod')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute.",
                "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
            ]
        else:
            reason = "OtherEffect"
            sentences.append("Eviction only happens for the NoExecute effect.")
        if evicted:
            sentences.append(f"{_counted(evicted, 'pod')} evicted since starting the controller.")
        return {"status": status, "reason": reason, "message": " ".join(sentences)}

    def _pending(self, rule: Object, assumed: Object | None = None) -> Steps[tuple[int, int]]:
        """How many pods a rule evicts, and in how many namespaces."""
        found: set[Key] = set()
        for part in parts_of(self._claims):
            for claim in part:
                if any(_selects(rule, device) for device in _devices_of(claim)):
                    found |= self._evicted_consumers(claim, rule, assumed)
            yield
        return len(found), len({namespace for namespace, _ in found})

    def _evicted_consumers(self, claim: Object, rule: Object, assumed: Object | None) -> set[Key]:
        found: set[Key] = set()
        for consumer in claim["status"].get("reservedFor") or ():
            pod = self._pods.get(claim["metadata"]["namespace"], consumer["name"])
            if pod is None or is_terminating(pod):
                continue
            eviction = self._eviction_of(pod, assumed)
            if eviction is not None and rule["metadata"]["uid"] in eviction.rules:
                found.add(key_of(pod))
        return found

    def _tainted(self, rule: Object) -> Steps[tuple[int, int]]:
        """How many published and how many allocated devices a rule selects."""
        published = allocated = 0
        for part in parts_of(self._slices):
            for one in part:
                spec = one["spec"]
                others = self._slices_of_pool.get((spec["driver"], spec["pool"]["name"]))
                if spec["pool"]["generation"] == max(x["spec"]["pool"]["generation"] for x in others):
                    place = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
                    devices = spec.get("devices") or ()
                    published += sum(_selects(rule, {**place, "device": x["name"]}) for x in devices)
            yield
        for part in parts_of(self._claims):
            for claim in part:
                allocated += sum(_selects(rule, device) for device in _devices_of(claim))
            yield
        return published, allocated


def _eviction_by(device: Object, taint: Object, rule: str) -> Eviction | None:
    """What one taint does to the claim of an allocated device; None: it is tolerated forever."""
    seconds: list[int] = []
    for toleration in device.get("tolerations") or ():
        if toleration.get("effect") == NO_EXECUTE and tolerates(toleration, taint):
            if "tolerationSeconds" not in toleration:
                return None
            seconds.append(max(0, toleration["tolerationSeconds"]))
    added = micros_of(taint["timeAdded"])
    return Eviction(added + min(seconds, default=0) * _SECOND, frozenset({rule} if rule else ()))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _namespaces(number: int) -> str:
    return "1 namespace" if number == 1 else f"{number} different namespaces"
