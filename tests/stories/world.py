"""What a namespace holds, in the form of a recorded story: random names, uids, times and addresses are replaced.

A recording keeps hashes (names of ReplicaSets and ControllerRevisions), and all else that a controller chose. The form
is that of the stories of workloads that were recorded first; docs/workloads.md describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import orjson

Object = dict[str, Any]

ANYTHING = "<unstable>"  # several recordings differ here
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"  # of a generated name
_END = "(?![a-z0-9-])"
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?(Z|[+-]\d\d:?\d\d)( [A-Z]{3,4})?)?( m=[+-][\d.]+)?"
)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HOST_IP = re.compile(r"192\.168\.0\.\d+")

# Events that are written again while a condition lasts: their number says nothing.
_REPEATED = frozenset(
    [
        "CalculateExpectedPodCountFailed",
        "Completed",
        "ExternalProvisioning",
        "FailedBinding",
        "FailedComputeMetricsReplicas",
        "FailedConvertHPA",
        "FailedCreate",
        "FailedGetExternalMetric",
        "FailedGetObjectMetric",
        "FailedGetPodsMetric",
        "FailedGetResourceMetric",
        "FailedGetScale",
        "FailedNeedsStart",
        "FailedRescale",
        "FailedScheduling",
        "FailedUpdate",
        "InvalidSchedule",
        "InvalidSelector",
        "MissSchedule",
        "NoPods",
        "NodeNotReady",
        "ProvisioningFailed",
        "SawCompletedJob",
        "UnknownTimeZone",
        "UnmanagedPods",
        "Unmanaged",
        "UnparseableSchedule",
        "VolumeFailedDelete",
        "WaitForFirstConsumer",
        "WaitForPodScheduled",
    ]
)
# Events of nodes themselves, and those that tell of a lost race between two controllers.
_IGNORED = frozenset(
    [
        "FailedToCreateEndpoint",
        "FailedToDeleteEndpoint",
        "FailedToListPods",
        "FailedToUpdateEndpoint",
        "FailedToUpdateEndpointSlices",
        "NodeAllocatableEnforced",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory",
        "NodeHasSufficientPID",
        "NodeNotSchedulable",
        "NodeReady",
        "NodeSchedulable",
        "RegisteredNode",
        "RemovingNode",
        "Starting",
    ]
)
_LOST_RACE = re.compile("not found|object has been modified|already exists|being terminated|StorageError")
_RACE_REASONS = ("FailedDelete", "FailedUpdate", "FailedCreate", "UnexpectedJob")
# Whether these appear depends on which controller was faster.
_EITHER = frozenset({"NoPods", "MultiplePodDisruptionBudgets"})

# What the API server sets, and no controller chose.
_POD_DEFAULTS: Object = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_UNORDERED = frozenset(
    [
        "active",
        "addresses",
        "conditions",
        "endpoints",
        "failed",
        "notReadyAddresses",
        "subsets",
        "succeeded",
        "uncountedTerminatedPods",
    ]
)
# Of a pod on simulated nodes: what is left out, what is compared of its containers, conditions without reasons.
_BY_KUBELET = ("observedGeneration", "initContainerStatuses", "resources", "allocatedResources")
_OF_CONTAINERS = frozenset({"name", "image", "ready", "restartCount", "state"})
_OF_PODS = ("Initialized", "ContainersReady", "Ready")
_METADATA = (
    *("labels", "annotations", "finalizers", "generation"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "generateName"),
)


class Names:
    """Replaces in a text what differs from run to run."""

    def __init__(self, namespace: str, nodes: Iterable[str], objects: Mapping[str, list[Object]]) -> None:
        self._namespace = namespace
        self._nodes = [_whole(node, "[a-z0-9.-]") for node in sorted(nodes, key=len, reverse=True)]
        self._uids = {
            one["metadata"]["uid"]: (kind, one["metadata"]["name"])
            for kind, several in objects.items()
            for one in several
        }
        self._known: dict[str, str] = {}  # names of objects that exist
        self._gone: list[tuple[re.Pattern[str], str]] = []  # what generated names look like
        self.addresses: dict[str, str] = {}

    def name_jobs(self, jobs: Iterable[Object]) -> None:
        """The name of a CronJob's Job ends with its minute."""
        counts: dict[str, int] = {}
        for job in sorted(jobs, key=_name):
            owner = controller_of(job)
            if owner is not None and owner["kind"] == "CronJob":
                counts[owner["name"]] = number = counts.get(owner["name"], 0) + 1
                self._known[_name(job)] = f"{owner['name']}-<minute:{number}>"

    def expect(self, seen: Collection[tuple[str, str]]) -> None:
        """Recognize the names of pods, slices and Jobs that are gone, by those of their owners."""
        schedules = [name for kind, name in seen if kind == "CronJob"]
        for kind, name in sorted(seen):
            if kind == "Service":
                self._recognize(f"{re.escape(name)}-{_SUFFIX}", f"{name}-<slice>")
            elif kind in ("ReplicaSet", "ReplicationController", "Job", "DaemonSet"):
                shown = self._known.get(name) or _of_schedule(name, schedules)
                self._recognize(f"{re.escape(name)}-{_SUFFIX}", f"{shown}-<pod>")
                if kind == "Job":
                    self._recognize(rf"{re.escape(name)}-(\d+)-{_SUFFIX}", rf"{shown}-\1-<pod>")
        for name in schedules:
            self._gone.append((re.compile(rf"\b{re.escape(name)}-\d{{8}}(?!\d)"), f"{name}-<minute>"))

    def _recognize(self, pattern: str, shown: str) -> None:
        self._gone.append((re.compile(rf"\b{pattern}{_END}"), shown))

    def number(self, word: str, objects: Iterable[Object], look: Callable[[Object], Object]) -> None:
        """Number objects with generated names, those of one owner in the order of what they look like."""
        groups: dict[str, list[Object]] = {}
        for one in objects:
            prefix = one["metadata"].get("generateName", "")
            if prefix and re.fullmatch(re.escape(prefix) + _SUFFIX, _name(one)):
                groups.setdefault(prefix, []).append(one)
        for prefix, group in groups.items():
            base = self.replaced(prefix[:-1], exact=False)
            group.sort(key=lambda one: (_text(look(one)), one["metadata"]["creationTimestamp"], _name(one)))
            for position, one in enumerate(group, 1):
                self._known[_name(one)] = f"{base}-<{word}:{position}>"

    def shown(self, name: str) -> str:
        return self._known.get(name, name)

    def replaced_key(self, key: str, *, exact: bool) -> str:
        """A domain in front is nothing that was generated."""
        return key.replace(self._namespace, "<ns>") if "/" in key else self.replaced(key, exact=exact)

    def replaced(self, text: str, *, exact: bool, counted: bool = True) -> str:
        """`exact` keeps the names of nodes; without `counted`, names are not numbered."""
        text = text.replace(self._namespace, "<ns>")
        text = _TIME.sub("<time>", text)
        text = _UID.sub(self._uid, text)
        for name in sorted(self._known, key=len, reverse=True):
            if name in text:
                shown = self._known[name] if counted else re.sub(r":\d+>", ">", self._known[name])
                text = _whole(name, "[a-z0-9-]").sub(shown.replace("\\", r"\\"), text)
        for pattern, shown in self._gone:
            text = pattern.sub(shown, text)
        if not exact:
            for node in self._nodes:
                text = node.sub("<node>", text)
        return text

    def _uid(self, match: re.Match[str]) -> str:
        if match[0] not in self._uids:
            return "<uid>"
        kind, name = self._uids[match[0]]
        return f"<uid {kind}/{self.shown(name)}>"


def world(
    objects: Mapping[str, list[Object]],
    events: Iterable[Object],
    *,
    namespace: str,
    nodes: Iterable[str],
    seen: Collection[tuple[str, str]],
    exact_nodes: bool = False,
    loose_nodes: bool = False,
) -> Object:
    """The form of a recording: objects by kind and name, and the events that tell of them."""
    names = Names(namespace, () if exact_nodes else nodes, objects)
    names.name_jobs(objects.get("Job", ()))
    names.expect(seen)
    form = _Form(names, loose_nodes)
    names.number("pod", objects.get("Pod", ()), lambda pod: form.of("Pod", pod, addresses=False))
    for pod in objects.get("Pod", ()):
        address = pod.get("status", {}).get("podIP")
        if address and not pod["spec"].get("hostNetwork"):
            names.addresses[address] = f"<ip of {names.shown(_name(pod))}>"
    slices = objects.get("EndpointSlice", ())
    names.number("slice", slices, lambda one: form.of("EndpointSlice", one, addresses=False))
    claims = objects.get("ResourceClaim", ())
    names.number("claim", claims, lambda one: form.of("ResourceClaim", one, addresses=False))
    found = {
        f"{kind}/{names.replaced(_name(one), exact=False)}": form.of(kind, one)
        for kind, several in objects.items()
        for one in several
    }
    return {"objects": dict(sorted(found.items())), "events": _events(events, names)}


def _events(events: Iterable[Object], names: Names) -> list[Object]:
    counts: dict[tuple[str, str, str, str], int] = {}
    for event in events:
        reason, message = event.get("reason", ""), event.get("message", "")
        component = (event.get("source") or {}).get("component") or event.get("reportingComponent")
        if reason in _IGNORED or component == "kubelet":
            continue
        if reason in _RACE_REASONS and _LOST_RACE.search(message):
            continue
        if message.startswith(("skip schedule deleting pod", "(combined from similar events)")):
            continue
        about = event["involvedObject"]
        name = names.replaced(about.get("name", ""), exact=False, counted=False)
        key = (
            f"{about.get('kind', '')}/{name}",
            event.get("type", ""),
            reason,
            names.replaced(message, exact=False, counted=False),
        )
        counts[key] = counts.get(key, 0) + (event.get("count") or 1)
    return [
        {"object": about, "type": type_, "reason": reason, "message": message}
        | {"count": "*" if _is_repeated(about, reason) else count}
        for (about, type_, reason, message), count in sorted(counts.items())
    ]


def _is_repeated(about: str, reason: str) -> bool:
    # The controller of StatefulSets has no expectations: with an old cache it deletes, and reports, twice.
    return reason in _REPEATED or (reason == "SuccessfulDelete" and about.startswith("StatefulSet/"))


class _Form:
    """An object as a recording has it."""

    def __init__(self, names: Names, loose_nodes: bool) -> None:
        self._names = names
        self._loose_nodes = loose_nodes

    def of(self, kind: str, given: Object, *, addresses: bool = True) -> Object:
        one = orjson.loads(orjson.dumps(given))
        metadata = one.pop("metadata")
        del one["apiVersion"], one["kind"]
        owner = controller_of(given)
        kept = {key: metadata[key] for key in _METADATA if metadata.get(key) not in (None, {}, [])}
        if "finalizers" in kept:
            kept["finalizers"].sort()
        if metadata.get("ownerReferences"):
            kept["ownerReferences"] = sorted(metadata["ownerReferences"], key=lambda ref: str(ref["name"]))
        status = one.get("status") or {}
        if kind == "Node":
            kept.pop("annotations", None)
            _simplify_node(one)
        elif kind in ("Endpoints", "EndpointSlice"):
            _leave_out_writes(kept)
        elif kind == "Service":
            _leave_out_addresses(one.get("spec") or {})
        elif kind == "ReplicaSet" and owner is not None and owner["kind"] == "Deployment":
            # The steps of a rollout depend on timing; that the last one was observed does not.
            if status.get("observedGeneration") == kept.get("generation"):
                kept.pop("generation", None)
                status.pop("observedGeneration", None)
        elif kind == "Job" and any(one["type"] == "Failed" for one in status.get("conditions") or ()):
            status.pop("ready", None)  # what it was when the Job failed
        by_daemon_set = owner is not None and owner["kind"] == "DaemonSet" and not self._loose_nodes
        walk = _Walk(self._names, exact=kind == "Node" or by_daemon_set, addresses=addresses)
        result: Object = walk.value({"metadata": kept, **one})
        return result


class _Walk:
    def __init__(self, names: Names, *, exact: bool, addresses: bool) -> None:
        self._names = names
        self._exact = exact
        self._addresses = addresses

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return self._object(value, key)
        if isinstance(value, list):
            items = [self.value(item, key) for item in value]
            if key in _UNORDERED:
                items.sort(key=lambda item: (_type_of(item), _text(item)))
            return items
        if isinstance(value, str):
            if value in self._names.addresses:
                return self._names.addresses[value] if self._addresses else "<ip>"
            if key in ("ip", "addresses") and _HOST_IP.fullmatch(value):
                return "<host ip>"
            return self._names.replaced(value, exact=self._exact)
        return value

    def _object(self, value: Object, key: str) -> Object:
        containers = value.get("containers")
        if isinstance(containers, list) and containers and "image" in containers[0]:
            _leave_out_defaults(value)
        result: Object = {}
        for name, item in value.items():
            if item is None or name in ("podIPs", "hostIPs", "containerID", "imageID"):
                continue
            if name == "resourceVersion" and key != "data":
                continue
            if name in ("podIP", "hostIP"):
                result[name] = "<ip>"
                continue
            walked = self.value(item, name)
            if walked == {} and name in ("creationTimestamp", "strategy", "metadata"):
                continue
            result[self._names.replaced_key(name, exact=self._exact)] = walked
        return result


def _simplify_node(node: Object) -> None:
    """Keep the conditions of its status, without times."""
    conditions = (node.get("status") or {}).get("conditions") or []
    node["status"] = {"conditions": conditions}
    for condition in conditions:
        condition["lastHeartbeatTime"] = condition["lastTransitionTime"] = "<time>"
    taints = (node.get("spec") or {}).get("taints") or []
    for taint in taints:
        taint.pop("timeAdded", None)
    taints.sort(key=lambda taint: (taint["key"], taint["effect"]))


def _leave_out_writes(metadata: Object) -> None:
    """How many writes it took, and whether the cause was known, depends on timing."""
    metadata.pop("generation", None)
    annotations = metadata.get("annotations", {})
    annotations.pop("endpoints.kubernetes.io/last-change-trigger-time", None)
    if not annotations:
        metadata.pop("annotations", None)


def _leave_out_addresses(service: Object) -> None:
    if service.get("clusterIP") not in (None, "", "None"):
        service["clusterIP"] = "<cluster ip>"
    if service.get("clusterIPs") and service["clusterIPs"] != ["None"]:
        service["clusterIPs"] = ["<cluster ip>"] * len(service["clusterIPs"])
    for port in service.get("ports") or ():
        if port.get("nodePort"):
            port["nodePort"] = "<node port>"


def _leave_out_defaults(pod_spec: Object) -> None:
    for key in ("serviceAccount", "serviceAccountName"):
        pod_spec.pop(key, None)
    _remove_equal(pod_spec, _POD_DEFAULTS)
    for container in (*pod_spec["containers"], *(pod_spec.get("initContainers") or ())):
        container.pop("imagePullPolicy", None)
        _remove_equal(container, _CONTAINER_DEFAULTS)
        _remove_token(container, "volumeMounts")
    _remove_token(pod_spec, "volumes")


def _remove_equal(value: Object, defaults: Object) -> None:
    for key, default in defaults.items():
        if key in value and value[key] == default:
            del value[key]


def _remove_token(value: Object, key: str) -> None:
    """Leave out the volume with the token of the pod's service account."""
    if value.get(key):
        value[key] = [one for one in value[key] if not one["name"].startswith("kube-api-access-")]
        if not value[key]:
            del value[key]


def differences(recorded: Object, found: Object, loose: Collection[str], *, own_nodes: bool) -> list[str]:
    """What is other than recorded, as lines. Events with the reasons in `loose` do not count.

    With `own_nodes`, what only the recorder's kubelet writes is left out of the statuses of pods.
    """
    lines: list[str] = []
    if own_nodes:
        recorded, found = _without_details(recorded), _without_details(found)
    _compare("", recorded["objects"], found["objects"], lines)
    expected, present = _by_text(recorded["events"]), _by_text(found["events"])
    for text, event in expected.items():
        if event.get("optional") or event["reason"] in _EITHER or event["reason"] in loose:
            continue
        if text not in present:
            lines.append(f"event {text}: missing")
        elif event["count"] not in ("*", ANYTHING) and present[text]["count"] not in ("*", event["count"]):
            lines.append(f"event {text}: count {present[text]['count']}, recorded {event['count']}")
    for text, event in present.items():
        if text not in expected and event["reason"] not in _EITHER and event["reason"] not in loose:
            lines.append(f"event {text}: not recorded")
    return lines


def _by_text(events: Iterable[Object]) -> dict[str, Object]:
    return {f"{one['object']} {one['type']} {one['reason']} {one['message']!r}": one for one in events}


def _compare(path: str, recorded: Any, found: Any, lines: list[str]) -> None:
    if recorded == ANYTHING:
        return
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in sorted({*recorded, *found}):
            if key not in found:
                if recorded[key] != ANYTHING:
                    lines.append(f"{path}/{key}: missing, recorded {_short(recorded[key])}")
            elif key not in recorded:
                lines.append(f"{path}/{key}: {_short(found[key])}, not recorded")
            else:
                _compare(f"{path}/{key}", recorded[key], found[key], lines)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for index, (one, other) in enumerate(zip(recorded, found, strict=True)):
            _compare(f"{path}/{index}", one, other, lines)
    elif recorded != found or type(recorded) is not type(found):
        lines.append(f"{path}: {_short(found)}, recorded {_short(recorded)}")


def _without_details(given: Object) -> Object:
    copy: Object = orjson.loads(orjson.dumps(given))
    for name, one in copy["objects"].items():
        if (
            not name.startswith("Pod/")
            or not isinstance(one, dict)
            or not isinstance(one.get("status"), dict)
        ):
            continue
        if {"deletionTimestamp", "finalizers"} <= (one.get("metadata") or {}).keys():
            del one["status"]  # a kubelet reports how the containers ended; the recorder's does not
            continue
        status = one["status"]
        for part in _BY_KUBELET:
            status.pop(part, None)
        if isinstance(conditions := status.get("conditions"), list):
            status["conditions"] = [_telling(condition) for condition in conditions if _counts(condition)]
        for container in status.get("containerStatuses") or ():
            if isinstance(container, dict):
                for part in container.keys() - _OF_CONTAINERS:
                    del container[part]
                container["state"] = _exit_codes(container.get("state"))
    return copy


def _counts(condition: Any) -> bool:
    return not isinstance(condition, dict) or condition.get("type") in (
        *_OF_PODS,
        "PodScheduled",
        "DisruptionTarget",
    )


def _telling(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    left_out = ("observedGeneration", *(("reason", "message") if condition.get("type") in _OF_PODS else ()))
    return {part: value for part, value in condition.items() if part not in left_out}


def _exit_codes(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    return {
        name: {"exitCode": detail["exitCode"]} if isinstance(detail, dict) and "exitCode" in detail else {}
        for name, detail in state.items()
    }


def controller_of(one: Object) -> Object | None:
    references: list[Object] = one["metadata"].get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller")), None)


def _of_schedule(name: str, schedules: Iterable[str]) -> str:
    for schedule in schedules:
        if re.fullmatch(rf"{re.escape(schedule)}-\d{{8}}", name):
            return f"{schedule}-<minute>"
    return name


def _whole(name: str, letters: str) -> re.Pattern[str]:
    return re.compile(f"(?<!{letters}){re.escape(name)}(?!{letters})")


def _name(one: Object) -> str:
    name: str = one["metadata"]["name"]
    return name


def _type_of(item: Any) -> str:
    return str(item.get("type", "")) if isinstance(item, dict) else ""


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
