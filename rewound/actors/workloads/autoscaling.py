"""The horizontalpodautoscaling controller: sets the replicas of a scale target by metrics, as v1.25 does.

Every autoscaler is evaluated once per period, because metrics change without a write. `Limits` has an autoscaler's
state between two evaluations, and turns the recommendation of the metrics into what is allowed now. It is lost with the
process, as in v1.25: after a restart the current replicas are the only recommendation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Final, NamedTuple

from rewound.actors.errors import Conflict, NoSuchResource, NotFound, RequestError
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.scale import go_selector_text, selector_text
from rewound.actors.messages import Object
from rewound.actors.quantity import quantity_text
from rewound.actors.runtime.steps import Steps, chosen, parts_of
from rewound.actors.runtime.turns import Turn, in_turns, next_turn
from rewound.actors.selectors.labels import LabelSelector
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    AMBIGUOUS_SELECTORS,
    METRICS_OF_FAILURES,
    RESCALE_RETRIED,
    SCALE_TO_ZERO,
    SCALED_TO_ZERO,
)
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.metrics import MetricsApis
from rewound.actors.workloads.pods import copied
from rewound.actors.workloads.replica_counts import (
    Count,
    NoReplicaCount,
    Tolerances,
    average_count,
    milli_value,
    utilization_count,
    value_count,
    value_per_pod_count,
)

logger = logging.getLogger(__name__)

ABLE, ACTIVE, LIMITED, ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"
_SECOND: Final = 1_000_000
_MOST: Final = 2**31 - 1
_TRIES: Final = 5  # to write a scale that others change too
_UP_FACTOR, _UP_AT_LEAST = 2, 4  # the limits of one step up without behavior

_STABLE: Final = ("ReadyForNewScale", "recommended size matches current size")
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_TOO_FAST_DOWN: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_WERE_LOWER: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_WERE_HIGHER: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)

Reason = tuple[str, str]  # of a condition: reason and message


class Decision(NamedTuple):
    replicas: int
    stable: Reason  # whether recent recommendations hold it back
    limited: bool
    limit: Reason


@dataclass(slots=True)
class Limits:
    """The history of one autoscaler: pairs of a time in microseconds and a number."""

    recommendations: list[tuple[int, int]] = field(default_factory=list)
    added: list[tuple[int, int]] = field(default_factory=list)  # replicas, only with behavior
    removed: list[tuple[int, int]] = field(default_factory=list)

    def begin(self, replicas: int, now: int) -> None:
        if not self.recommendations:
            self.recommendations.append((now, replicas))

    def decide(self, spec: Object, current: int, wanted: int, window: float, now: int) -> Decision:
        """`window`: the stabilization window if the behavior has none."""
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        behavior = spec.get("behavior")
        if behavior is None:
            stabilized = self._highest(wanted, now - round(window * _SECOND), now)
            stable = _STABLE if stabilized == wanted else _WERE_HIGHER
            replicas, limit = _without_behavior(current, stabilized, lowest, highest)
        else:
            up, down = behavior["scaleUp"], behavior["scaleDown"]
            stabilized = self._between(
                current,
                wanted,
                now - up.get("stabilizationWindowSeconds", 0) * _SECOND,
                now - round(down.get("stabilizationWindowSeconds", window) * _SECOND),
                now,
            )
            held = _WERE_LOWER if wanted >= current else _WERE_HIGHER
            stable = _STABLE if stabilized == wanted else held
            replicas, limit = self._by_policies(up, down, current, stabilized, lowest, highest, now)
        return Decision(replicas, stable, replicas != stabilized, limit)

    def _highest(self, wanted: int, since: int, now: int) -> int:
        self.recommendations = [one for one in self.recommendations if one[0] >= since]
        found = max((number for _, number in self.recommendations), default=wanted)
        self.recommendations.append((now, wanted))
        return max(found, wanted)

    def _between(self, current: int, wanted: int, up_since: int, down_since: int, now: int) -> int:
        self.recommendations = [one for one in self.recommendations if one[0] > min(up_since, down_since)]
        least = min([wanted, *(number for time, number in self.recommendations if time > up_since)])
        most = max([wanted, *(number for time, number in self.recommendations if time > down_since)])
        self.recommendations.append((now, wanted))
        return min(max(current, least), most)

    def _by_policies(
        self, up: Object, down: Object, current: int, wanted: int, lowest: int, highest: int, now: int
    ) -> tuple[int, Reason]:
        if wanted > current:
            most = max(current, self._most(up, current, now))
            limit, reason = (most, _TOO_FAST_UP) if highest > most else (highest, _TOO_MANY)
            if wanted > limit:
                return limit, reason
        elif wanted < current:
            least = min(current, self._least(down, current, now))
            limit, reason = (least, _TOO_FAST_DOWN) if lowest < least else (lowest, _TOO_FEW)
            if wanted < limit:
                return limit, reason
        return wanted, _WITHIN

    def _most(self, rules: Object, current: int, now: int) -> int:
        """The most replicas that the policies allow."""
        if rules["selectPolicy"] == "Disabled":
            return current
        allowed = []
        for policy in rules.get("policies", ()):
            before = current - _changed(self.added, policy["periodSeconds"], now)
            share = ceil(before * (1 + policy["value"] / 100))
            allowed.append(before + policy["value"] if policy["type"] == "Pods" else share)
        choose = min if rules["selectPolicy"] == "Min" else max
        return choose(allowed, default=_MOST)

    def _least(self, rules: Object, current: int, now: int) -> int:
        if rules["selectPolicy"] == "Disabled":
            return current
        allowed = []
        for policy in rules.get("policies", ()):
            before = current + _changed(self.removed, policy["periodSeconds"], now)
            share = int(before * (1 - policy["value"] / 100))
            allowed.append(before - policy["value"] if policy["type"] == "Pods" else share)
        choose = max if rules["selectPolicy"] == "Min" else min
        return choose(allowed, default=0)

    def scaled(self, behavior: Object | None, before: int, after: int, now: int) -> None:
        """Remember a change, for policies."""
        if behavior is None:
            return
        events, rules = (
            (self.added, behavior["scaleUp"]) if after > before else (self.removed, behavior["scaleDown"])
        )
        longest = max((policy["periodSeconds"] for policy in rules.get("policies", ())), default=0)
        events[:] = [one for one in events if one[0] >= now - longest * _SECOND]
        events.append((now, abs(after - before)))


def _changed(events: list[tuple[int, int]], seconds: int, now: int) -> int:
    return sum(number for time, number in events if time > now - seconds * _SECOND)


def _without_behavior(current: int, wanted: int, lowest: int, highest: int) -> tuple[int, Reason]:
    most = max(_UP_FACTOR * current, _UP_AT_LEAST)
    limit, reason = (most, _TOO_FAST_UP) if highest > most else (highest, _TOO_MANY)
    if wanted < lowest:
        return lowest, _TOO_FEW
    return (limit, reason) if wanted > limit else (wanted, _WITHIN)


class _Failed(Exception):
    """A metric cannot be computed: `reason` and `why` of its condition and Event; the text is for their summary."""

    def __init__(self, reason: str, why: str, text: str) -> None:
        self.reason, self.why = reason, why
        super().__init__(text)


class _Metric(NamedTuple):
    replicas: int
    name: str  # as in Events
    status: Object


class _Scale(NamedTuple):
    definition: Definition
    document: Object
    replicas: int  # of the spec
    current: int
    selector: str


class HorizontalPodAutoscalers(WorkloadController):
    name, account = "horizontalpodautoscaling", "horizontal-pod-autoscaler"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        context, options = parts.context, parts.context.workloads
        self._registry, self._journal = context.registry, context.journal
        self._autoscalers = self.cache.collection("horizontalpodautoscalers.autoscaling")
        self._autoscalers.listen(self._autoscaler_changed)
        self._pods = self.cache.collection("pods")
        assert isinstance(self.client.identity, User)
        self._metrics = MetricsApis(context, self._pods, self.client.identity)
        self._period = options.horizontal_pod_autoscaler_sync_period
        self._window = options.horizontal_pod_autoscaler_downscale_stabilization
        self._rules = Tolerances(
            options.horizontal_pod_autoscaler_tolerance,
            round(options.horizontal_pod_autoscaler_cpu_initialization_period * _SECOND),
            round(options.horizontal_pod_autoscaler_initial_readiness_delay * _SECOND),
            self.release.features,
        )
        self._limits: dict[Key, Limits] = {}
        self._selecting: dict[str, dict[str, str]] = {}  # by namespace and name: the selector last evaluated

    def _autoscaler_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add_after(key_of(new), self._period)
        elif old is not None:
            self._forget(key_of(old))

    def _forget(self, key: Key) -> None:
        self._limits.pop(key, None)
        names = self._selecting.get(key[0], {})
        names.pop(key[1], None)
        if not names:
            self._selecting.pop(key[0], None)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        for stored in self._autoscalers:
            self.queue.add_after(key_of(stored), self._period)

    async def reconcile(self, key: Key) -> None:
        stored = self._autoscalers.get(*key)
        if stored is None:
            self._forget(key)
            return
        try:
            await _Evaluation(self, copied(stored), self._limits.setdefault(key, Limits())).run()
        except RequestError as error:
            logger.info("%s evaluates %s again in %g s: %s", self.name, key, self._period, error)
        self.queue.add_after(key, self._period)

    def scale_of(self, namespace: str, reference: Object) -> _Scale:
        """The scale of a target. Raises _NoScale if it has none."""
        definition = self._target(reference)
        name = reference["name"]
        subresource = definition.subresource("scale")
        if subresource is None or subresource.view is None or subresource.view.storage.conversion is None:
            raise _NoScale(NoSuchResource.message)
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(definition.type_name), namespace, name)
        if row is None:
            raise _NoScale(str(NotFound(subresource.not_found_resource or definition.resource, name)))
        stored = decode(row.body)
        try:
            if subresource.check_read is not None:
                subresource.check_read(stored)
        except RequestError as error:
            raise _NoScale(str(error)) from None
        document = subresource.view.storage.conversion.from_storage(stored)
        status = document["status"]
        return _Scale(
            definition,
            document,
            document["spec"].get("replicas", 0),
            status.get("replicas", 0),
            status.get("selector", ""),
        )

    def _target(self, reference: Object) -> Definition:
        version, kind = reference.get("apiVersion", ""), reference["kind"]
        if version.count("/") > 1:
            raise _NoScale(f"unexpected GroupVersion string: {version}")
        group = version.partition("/")[0] if "/" in version else ""
        catalog = self._registry.current
        for one in catalog.groups().get(group, ()):
            for definition in catalog.of_version(group, one):
                if definition.kind == kind:
                    return definition
        raise _NoScale(f"no matches for kind {quoted(kind)} in group {quoted(group)}")

    async def pods(self, namespace: str, selector: LabelSelector) -> list[Object]:
        def is_selected(pod: Object) -> bool:
            return selector.matches(pod["metadata"].get("labels", {}))

        return await in_turns(chosen(self._pods.in_namespace(namespace), is_selected))

    async def sharing(self, key: Key, selector: str) -> list[str]:
        """The autoscalers that select a pod of this one; it selects none of the others before it was evaluated once."""
        if self._autoscalers.get(*key) is None or AMBIGUOUS_SELECTORS not in self.release.features:
            return []
        names = self._selecting.setdefault(key[0], {})
        names[key[1]] = selector
        if len(names) == 1:
            return []
        pods = await self.pods(key[0], LabelSelector.parse(selector))
        labels = {frozenset(one["metadata"].get("labels", {}).items()) for one in pods}
        return await in_turns(_selecting(tuple(labels), dict(names)))

    @property
    def definition(self) -> Definition:
        return self._autoscalers.definition

    @property
    def metrics(self) -> MetricsApis:
        return self._metrics

    @property
    def rules(self) -> Tolerances:
        return self._rules

    @property
    def window(self) -> float:
        return self._window


def _selecting(
    labels: Sequence[frozenset[tuple[str, str]]], selectors: Mapping[str, str]
) -> Steps[list[str]]:
    """The names whose selectors select pods with some of these labels, sorted."""
    known: dict[str, bool] = {}
    for text in selectors.values():
        if text not in known:
            selector = LabelSelector.parse(text)
            known[text] = False
            for part in parts_of(labels):
                known[text] = known[text] or any(selector.matches(dict(one)) for one in part)
                yield
    return sorted(name for name, text in selectors.items() if known[text])


class _NoScale(Exception):
    """The target has no scale; the text says why."""


class _Evaluation:
    """One evaluation of an autoscaler, which is our own copy."""

    def __init__(self, controller: HorizontalPodAutoscalers, autoscaler: Object, limits: Limits) -> None:
        self._controller = controller
        self._autoscaler = autoscaler
        self._limits = limits
        self._namespace, self._name = key_of(autoscaler)
        self._spec: Object = autoscaler["spec"]
        self._before: Object = copied(autoscaler["status"])
        self._status: Object = autoscaler["status"]
        self._measured: list[Object] = []  # of each metric of the spec

    async def run(self) -> None:
        try:
            scale = self._controller.scale_of(self._namespace, self._spec["scaleTargetRef"])
        except _NoScale as error:
            self._event("Warning", "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._set(ABLE, "False", ("FailedGetScale", text))
            await self._write()
            return
        able = "the HPA controller was able to get the target's current scale"
        self._set(ABLE, "True", ("SucceededGetScale", able))
        self._limits.begin(scale.replicas, self._controller.now())
        try:
            wanted, why, statuses = await self._wanted(scale)
        except NoReplicaCount as error:
            self._status["currentReplicas"] = scale.replicas
            self._show_measured()
            await self._write()
            self._event("Warning", "FailedComputeMetricsReplicas", str(error))
            return
        rescaled = wanted is not None
        if wanted is not None and not await self._rescale(scale, wanted, why):
            return
        self._status["currentReplicas"] = scale.replicas
        self._status["desiredReplicas"] = scale.replicas if wanted is None else wanted
        self._status["currentMetrics"] = statuses
        if rescaled:
            self._status["lastScaleTime"] = self._controller.now_text()
        await self._write()

    async def _wanted(self, scale: _Scale) -> tuple[int | None, str, list[Object]]:
        """The new number of replicas (None: unchanged), the reason, and the metrics' status. Raises NoReplicaCount."""
        current, spec = scale.replicas, self._spec
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        if not current and not self._may_leave_zero(lowest):
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(ACTIVE, "False", ("ScalingDisabled", text))
            self._drop_condition_of_zero()
            return None, "", []
        if current > highest:
            return highest, "Current number of replicas above Spec.MaxReplicas", []
        if 0 < current < lowest:
            return lowest, "Current number of replicas below Spec.MinReplicas", []
        asked, metric, statuses = await self._by_metrics(scale)
        why = "All metrics below target" if asked < current else ""
        why = f"{metric} above target" if asked > current else why
        decision = self._limits.decide(spec, current, asked, self._controller.window, self._controller.now())
        self._set(ABLE, "True", decision.stable)
        self._set(LIMITED, "True" if decision.limited else "False", decision.limit)
        return (None if decision.replicas == current else decision.replicas), why, statuses

    def _may_leave_zero(self, lowest: int) -> bool:
        features = self._controller.release.features
        if SCALED_TO_ZERO not in features:
            return not lowest
        conditions = self._status.get("conditions") or ()
        was_scaled = any(one["type"] == ZERO and one["status"] == "True" for one in conditions)
        return SCALE_TO_ZERO in features and was_scaled and (lowest > 0 or self._is_measured_outside)

    @property
    def _is_measured_outside(self) -> bool:
        """Whether some metric is not one of the pods, of which there are none at zero."""
        return any(one["type"] in ("Object", "External") for one in self._spec.get("metrics", ()))

    def _drop_condition_of_zero(self) -> None:
        features = self._controller.release.features
        if SCALED_TO_ZERO in features and SCALE_TO_ZERO not in features:
            conditions = self._status.get("conditions") or ()
            self._status["conditions"] = [one for one in conditions if one["type"] != ZERO]

    def _note_zero(self, before: int, wanted: int) -> None:
        """Say whether this change is the one to zero."""
        self._drop_condition_of_zero()
        if not {SCALED_TO_ZERO, SCALE_TO_ZERO} <= self._controller.release.features:
            return
        if before and not wanted and not self._spec.get("minReplicas", 1) and self._is_measured_outside:
            self._set(ZERO, "True", ("ScaledToZero", "the HPA controller scaled the workload to zero"))
        else:
            text = "the HPA controller did not scale the workload to zero"
            self._set(ZERO, "False", ("NotScaledToZero", text))

    async def _write_scale(self, scale: _Scale, wanted: int) -> None:
        """Raises RequestError."""
        controller, document = self._controller, scale.document
        tries = _TRIES if RESCALE_RETRIED in controller.release.features else 1
        for number in range(1, tries + 1):
            changed = {
                "metadata": {"resourceVersion": document["metadata"]["resourceVersion"]},
                "spec": {"replicas": wanted},
            }
            name = document["metadata"]["name"]
            try:
                await controller.client.patch(
                    scale.definition, self._namespace, name, changed, "merge", "scale"
                )
                return
            except Conflict:
                if number == tries:
                    raise
            with suppress(_NoScale):
                document = controller.scale_of(self._namespace, self._spec["scaleTargetRef"]).document

    async def _rescale(self, scale: _Scale, wanted: int, why: str) -> bool:
        controller, before = self._controller, scale.replicas
        try:
            await self._write_scale(scale, wanted)
        except RequestError as error:
            self._event("Warning", "FailedRescale", f"New size: {wanted}; reason: {why}; error: {error}")
            text = f"the HPA controller was unable to update the target scale: {error}"
            self._set(ABLE, "False", ("FailedUpdateScale", text))
            self._status["currentReplicas"] = before
            self._show_measured()
            await self._write()
            return False
        text = f"the HPA controller was able to update the target scale to {wanted}"
        self._set(ABLE, "True", ("SucceededRescale", text))
        self._event("Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {why}")
        self._limits.scaled(self._spec.get("behavior"), before, wanted, controller.now())
        self._note_zero(before, wanted)
        return True

    def _show_measured(self) -> None:
        if METRICS_OF_FAILURES in self._controller.release.features:
            self._status["currentMetrics"] = self._measured

    async def _by_metrics(self, scale: _Scale) -> tuple[int, str, list[Object]]:
        """The highest recommendation, the name of its metric, and the status of all. Raises NoReplicaCount."""
        selector = self._selector(scale)
        await self._check_alone(scale)
        metrics = self._spec.get("metrics", ())
        statuses = self._measured
        best: _Metric | None = None
        failed: list[_Failed] = []
        turn = Turn()
        for spec in metrics:
            if turn.over():
                await next_turn()
                turn = Turn()
            try:
                found = await self._by_metric(scale, selector, spec)
            except _Failed as error:
                self._event("Warning", error.reason, error.why)
                failed.append(error)
                statuses.append({"type": ""})
                continue
            statuses.append(found.status)
            if best is None or found.replicas > best.replicas:
                best = found
        if failed and (best is None or best.replicas < scale.replicas):
            first = failed[0]
            text = f"the HPA was unable to compute the replica count: {first.why}"
            self._set(ACTIVE, "False", (first.reason, text))
            counts = f"{len(failed)} invalid out of {len(metrics)}"
            raise NoReplicaCount(f"invalid metrics ({counts}), first error is: {first}")
        replicas, name = (0, "") if best is None else (best.replicas, best.name)
        text = f"the HPA was able to successfully calculate a replica count from {name}"
        self._set(ACTIVE, "True", ("ValidMetricFound", text))
        return replicas, name, statuses

    def _selector(self, scale: _Scale) -> LabelSelector:
        if not scale.selector:
            self._event("Warning", "SelectorRequired", "selector is required")
            self._set(ACTIVE, "False", ("InvalidSelector", "the HPA target's scale is missing a selector"))
            raise NoReplicaCount("selector is required")
        try:
            return LabelSelector.parse(scale.selector)
        except RequestError as error:
            text = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._event("Warning", "InvalidSelector", text)
            self._set(ACTIVE, "False", ("InvalidSelector", text))
            raise NoReplicaCount(text) from None

    async def _check_alone(self, scale: _Scale) -> None:
        """Refuse to scale pods that another autoscaler scales too."""
        names = await self._controller.sharing((self._namespace, self._name), scale.selector)
        if len(names) > 1:
            sharing = " ".join(f"{self._namespace}/{name}" for name in names)
            text = f"pods by selector {scale.selector} are controlled by multiple HPAs: [{sharing}]"
            self._event("Warning", "AmbiguousSelector", text)
            self._set(ACTIVE, "False", ("AmbiguousSelector", text))
            raise NoReplicaCount(text)

    async def _by_metric(self, scale: _Scale, selector: LabelSelector, spec: Object) -> _Metric:
        match spec["type"]:
            case "Resource":
                return await self._by_resource(scale, selector, spec["resource"])
            case "ContainerResource":
                return await self._by_container(scale, selector, spec["containerResource"])
            case "Pods":
                return await self._by_pods(scale, selector, spec["pods"])
            case "Object":
                return await self._by_object(scale, selector, spec["object"])
            case "External":
                return await self._by_external(scale, selector, spec["external"])
        text = f"unknown metric source type {quoted(spec['type'])}"
        raise _Failed("InvalidMetricSourceType", text, text)

    async def _by_resource(self, scale: _Scale, selector: LabelSelector, source: Object) -> _Metric:
        try:
            found, name, current = await self._usage(scale, selector, source, "")
        except NoReplicaCount as error:
            text = f"failed to get {source['name']} resource metric value: {error}"
            raise _Failed("FailedGetResourceMetric", str(error), text) from None
        status = {"type": "Resource", "resource": {"name": source["name"], "current": current}}
        return _Metric(found.replicas, name, status)

    async def _by_container(self, scale: _Scale, selector: LabelSelector, source: Object) -> _Metric:
        container = source["container"]
        try:
            found, name, current = await self._usage(scale, selector, source, container)
        except NoReplicaCount as error:
            text = f"failed to get {container} container metric value: {error}"
            raise _Failed("FailedGetContainerResourceMetric", str(error), text) from None
        part = {"name": source["name"], "container": container, "current": current}
        return _Metric(found.replicas, name, {"type": "ContainerResource", "containerResource": part})

    async def _usage(
        self, scale: _Scale, selector: LabelSelector, source: Object, container: str
    ) -> tuple[Count, str, Object]:
        """By the usage of a resource: the count, the name of the metric, and its current value."""
        controller, resource, target = self._controller, source["name"], source["target"]
        try:
            metrics = await controller.metrics.resource(self._namespace, selector, resource, container)
            pods = await controller.pods(self._namespace, selector)
            if "averageValue" in target:
                found = await in_turns(
                    average_count(
                        pods,
                        metrics,
                        resource=resource,
                        target=milli_value(target["averageValue"]),
                        replicas=scale.replicas,
                        rules=controller.rules,
                        now=controller.now(),
                    )
                )
                return found, f"{resource} resource", {"averageValue": _quantity(found.value)}
            found = await in_turns(
                utilization_count(
                    pods,
                    metrics,
                    resource=resource,
                    container=container,
                    target=target["averageUtilization"],
                    replicas=scale.replicas,
                    rules=controller.rules,
                    now=controller.now(),
                )
            )
        except NoReplicaCount as error:
            raise NoReplicaCount(f"failed to get {resource} utilization: {error}") from None
        current = {"averageUtilization": found.percent, "averageValue": _quantity(found.value)}
        return found, f"{resource} resource utilization (percentage of request)", current

    async def _by_pods(self, scale: _Scale, selector: LabelSelector, source: Object) -> _Metric:
        controller, metric = self._controller, source["metric"]
        name, chosen = metric["name"], selector_text(metric.get("selector", {}))
        try:
            try:
                metrics = await controller.metrics.pods(self._namespace, selector, name, chosen)
            except NoReplicaCount as error:
                raise NoReplicaCount(f"unable to get metric {name}: {error}") from None
            found = await in_turns(
                average_count(
                    await controller.pods(self._namespace, selector),
                    metrics,
                    resource="",
                    target=milli_value(source["target"]["averageValue"]),
                    replicas=scale.replicas,
                    rules=controller.rules,
                    now=controller.now(),
                )
            )
        except NoReplicaCount as error:
            text = f"failed to get pods metric value: {error}"
            raise _Failed("FailedGetPodsMetric", str(error), text) from None
        part = {"metric": metric, "current": {"averageValue": _quantity(found.value)}}
        return _Metric(found.replicas, f"pods metric {name}", {"type": "Pods", "pods": part})

    async def _by_object(self, scale: _Scale, selector: LabelSelector, source: Object) -> _Metric:
        controller, metric, described = self._controller, source["metric"], source["describedObject"]
        name, target, average = metric["name"], source["target"], source["target"]["type"] == "AverageValue"
        if {"Value": "value", "AverageValue": "averageValue"}.get(target["type"]) not in target:
            text = "invalid object metric source: neither a value target nor an average value target was set"
            raise _Failed("FailedGetObjectMetric", text, f"failed to get object metric value: {text}")
        chosen = selector_text(metric.get("selector", {}))
        try:
            value = await controller.metrics.object(self._namespace, described, name, chosen)
        except NoReplicaCount as error:
            kind, of = described["kind"], described["name"]
            why = f"unable to get metric {name}: {kind} on {self._namespace} {of}/{error}"
            text = f"failed to get {name} object metric: {why}" if average else why
            failed = f"failed to get object metric value: {text}"
            raise _Failed("FailedGetObjectMetric", why, failed) from None
        if average:
            found = self._per_pod(scale, value, target)
            part: Object = {"metric": metric, "current": {"averageValue": _quantity(found.value)}}
            part["describedObject"] = {"kind": "", "name": ""}
            status = {"type": "Object", "object": part}
            return _Metric(
                found.replicas, f"external metric {name}({go_selector_text(metric.get('selector'))})", status
            )
        try:
            found = await self._for_all(scale, selector, value, target)
        except NoReplicaCount as error:
            text = f"failed to get object metric value: {error}"
            raise _Failed("FailedGetObjectMetric", str(error), text) from None
        part = {"describedObject": described, "metric": metric, "current": {"value": _quantity(found.value)}}
        return _Metric(
            found.replicas, f"{described['kind']} metric {name}", {"type": "Object", "object": part}
        )

    async def _by_external(self, scale: _Scale, selector: LabelSelector, source: Object) -> _Metric:
        controller, metric, target = self._controller, source["metric"], source["target"]
        name, shown, average = (
            metric["name"],
            go_selector_text(metric.get("selector")),
            "averageValue" in target,
        )
        reason, outer = "FailedGetExternalMetric", f"failed to get {name} external metric value"
        inner = (
            f"failed to get {name} external metric" if average else f"failed to get external metric {name}"
        )
        try:
            chosen = selector_text(metric.get("selector", {}))
            value = await controller.metrics.external(self._namespace, name, chosen)
        except NoReplicaCount as error:
            why = f"unable to get external metric {self._namespace}/{name}/{shown}: {error}"
            raise _Failed(reason, why, f"{outer}: {inner}: {why}") from None
        try:
            found = (
                self._per_pod(scale, value, target)
                if average
                else await self._for_all(scale, selector, value, target)
            )
        except NoReplicaCount as error:
            raise _Failed(reason, str(error), f"{outer}: {inner}: {error}") from None
        current = {"averageValue" if average else "value": _quantity(found.value)}
        status = {"type": "External", "external": {"metric": metric, "current": current}}
        return _Metric(found.replicas, f"external metric {name}({shown})", status)

    def _per_pod(self, scale: _Scale, value: int, target: Object) -> Count:
        rules = self._controller.rules
        return value_per_pod_count(
            value, target=milli_value(target["averageValue"]), replicas=scale.current, rules=rules
        )

    async def _for_all(self, scale: _Scale, selector: LabelSelector, value: int, target: Object) -> Count:
        return await in_turns(
            value_count(
                await self._controller.pods(self._namespace, selector),
                value,
                target=milli_value(target["value"]),
                replicas=scale.replicas,
                rules=self._controller.rules,
            )
        )

    def _set(self, condition_type: str, status: str, reason: Reason) -> None:
        conditions: list[Object] = self._status.setdefault("conditions", [])
        found = next((one for one in conditions if one["type"] == condition_type), None)
        if found is None:
            found = {"type": condition_type, "status": ""}
            conditions.append(found)
        if found["status"] != status:
            found["lastTransitionTime"] = self._controller.now_text()
        found |= {"status": status, "reason": reason[0], "message": reason[1]}

    def _event(self, event_type: str, reason: str, message: str) -> None:
        controller = self._controller
        controller.recorder.event(controller.definition, self._autoscaler, event_type, reason, message)

    async def _write(self) -> None:
        if _without_empty(self._status) == _without_empty(self._before):
            return
        controller, definition = self._controller, self._controller.definition
        written = definition.schema.decode_object({**self._autoscaler, "status": self._status}).object
        try:
            await controller.client.replace(definition, written, "status")
        except (Conflict, NotFound):
            return  # it has changed: the next evaluation uses the new one
        except RequestError as error:
            self._event("Warning", "FailedUpdateStatus", str(error))
            raise


def _without_empty(status: Object) -> Object:
    return {part: value for part, value in status.items() if value}


def _quantity(thousandths: int) -> str:
    return quantity_text(thousandths * 1_000_000, "decimal")
