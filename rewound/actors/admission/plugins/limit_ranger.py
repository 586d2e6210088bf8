"""LimitRanger: sets the default requests and limits of pods, and rejects pods and claims outside the LimitRanges.

Every pod needs the LimitRanges of its namespace, so they are parsed once and cached; the feed keeps the cache up to
date. They apply in the order of their names. By the rule `default-cpu` (`actors.profile`), containers in the namespace
`default` request 0.1 CPU by default, while that namespace has no LimitRange.

Checks compare whole nano-units. Several violations of one LimitRange make one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import trio

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource, TooLarge
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.core.resources import nanos
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import Rules
from rewound.actors.quantity import NANOS, canonical_quantity
from rewound.actors.runtime.large_work import MANY_VALUES, MAX_VALUES
from rewound.actors.runtime.time_limit import check_time, need_thread
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

Amounts = Mapping[str, str]  # quantities by the name of the resource

MILLIS: Final = NANOS // 1000
_NONE: Final[Amounts] = {}


class Limit(msgspec.Struct, frozen=True):
    """One item of a LimitRange; the names of its amounts are sorted."""

    type: str  # Container, Pod or PersistentVolumeClaim
    min: Amounts
    max: Amounts
    ratio: Amounts  # maxLimitRequestRatio


class LimitRange(msgspec.Struct, frozen=True):
    limits: tuple[Limit, ...]
    # Of containers.
    default_limits: Amounts
    default_requests: Amounts


def parse_limit_range(stored: Object) -> LimitRange:
    items = stored["spec"]["limits"] or ()
    containers = [one for one in items if one["type"] == "Container"]
    return LimitRange(
        tuple(
            Limit(
                one["type"],
                _sorted(one.get("min")),
                _sorted(one.get("max")),
                _sorted(one.get("maxLimitRequestRatio")),
            )
            for one in items
        ),
        _sorted({name: amount for one in containers for name, amount in one.get("default", _NONE).items()}),
        _sorted(
            {name: amount for one in containers for name, amount in one.get("defaultRequest", _NONE).items()}
        ),
    )


def _sorted(amounts: Amounts | None) -> Amounts:
    return dict(sorted(amounts.items())) if amounts else _NONE


def pod_violations(limit_range: LimitRange, pod: Object) -> str:
    """Why the LimitRange does not allow the pod, "" if it does."""
    spec, found = pod["spec"], list[str]()
    for limit in limit_range.limits:
        if limit.type == "Container":
            for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
                resources = container["resources"]
                requests, limits = resources.get("requests", _NONE), resources.get("limits", _NONE)
                found += _violations(limit, requests, limits)
        elif limit.type == "Pod":
            found += _violations(limit, _pod_total(spec, "requests"), _pod_total(spec, "limits"))
    return _joined(found)


def claim_violations(limit_range: LimitRange, claim: Object) -> str:
    """Like `pod_violations`, for a PersistentVolumeClaim. Only its requests count."""
    requests, found = claim["spec"]["resources"].get("requests", _NONE), list[str]()
    for limit in limit_range.limits:
        if limit.type == "PersistentVolumeClaim":
            found += _below_min(limit, requests, _NONE)
            for name, most in limit.max.items():
                start = f"maximum {name} usage per {limit.type} is {most}"
                request = requests.get(name)
                if request is None:
                    found.append(f"{start}.  No request is specified")
                elif nanos(request) > nanos(most):
                    found.append(f"{start}, but request is {request}")
    return _joined(found)


def _joined(found: list[str]) -> str:
    """One message for all violations; equal ones count once."""
    distinct = list(dict.fromkeys(found))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


def _violations(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below_min(limit, requests, limits)
    yield from _above_max(limit, requests, limits)
    yield from _above_ratio(limit, requests, limits)


def _below_min(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in limit.min.items():
        start = f"minimum {name} usage per {limit.type} is {least}"
        request, most = requests.get(name), limits.get(name)
        if request is None:
            yield f"{start}.  No request is specified"
        elif nanos(request) < nanos(least):
            yield f"{start}, but request is {request}"
        elif most is not None and nanos(most) < nanos(least):
            yield f"{start}, but limit is {most}"


def _above_max(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in limit.max.items():
        start = f"maximum {name} usage per {limit.type} is {most}"
        request, own = requests.get(name), limits.get(name)
        if own is None:
            yield f"{start}.  No limit is specified"
        elif nanos(own) > nanos(most):
            yield f"{start}, but limit is {own}"
        elif request is not None and nanos(request) > nanos(most):
            yield f"{start}, but request is {request}"


def _above_ratio(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, largest in limit.ratio.items():
        start = f"{name} max limit to request ratio per {limit.type} is {largest}"
        request, own = nanos(requests.get(name, "0")), nanos(limits.get(name, "0"))
        if not request:
            yield f"{start}, but no request is specified or request is 0"
        elif not own:
            yield f"{start}, but no limit is specified or limit is 0"
        elif own * NANOS > nanos(largest) * request:
            yield f"{start}, but provided ratio is {own / request:f}"


def _pod_total(spec: Object, part: str) -> Amounts:
    """The sum of the containers if each has an amount, or that of an init container if it is larger."""
    containers = [one["resources"].get(part, _NONE) for one in spec["containers"] or ()]
    total = _sum(containers)
    for one in spec.get("initContainers", ()):
        for name, amount in one["resources"].get(part, _NONE).items():
            if name not in total or nanos(amount) > nanos(total[name]):
                total[name] = amount
    return total


def _sum(containers: list[Amounts]) -> dict[str, str]:
    names = set[str]().union(*containers)
    return {
        name: _total(name, (one[name] for one in containers))
        for name in names
        if all(name in one for one in containers)
    }


def _total(name: str, amounts: Iterable[str]) -> str:
    """CPU in thousandths, all else in whole units; a sum is written with decimal suffixes."""
    if name == "cpu":
        return canonical_quantity(f"{sum(-(-nanos(one) // MILLIS) for one in amounts)}m")
    return canonical_quantity(str(sum(-(-nanos(one) // NANOS) for one in amounts)))


PODS: Final = Resource("", "pods")
CLAIMS: Final = Resource("", "persistentvolumeclaims")
WITHOUT_LIMIT_RANGE: Final = LimitRange((), {}, {"cpu": "100m"})  # in `default`

Ranges = tuple[LimitRange, ...]


class LimitRanges:
    """The parsed LimitRanges of all namespaces, by namespace and in the order of their names."""

    def __init__(self, rules: Rules, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("limitranges")
        self._without = {"default": (WITHOUT_LIMIT_RANGE,)} if rules.default_cpu == "100m" else {}
        self._parsed: dict[str, dict[str, LimitRange]] = {}
        self._by_namespace: dict[str, Ranges] | None = None
        feed.follow(self._committed, frozenset({self._type_id}))

    def of(self, namespace: str) -> Ranges:
        """The LimitRanges of a namespace. Not for threads."""
        if self._by_namespace is None:
            self._by_namespace = self._read()
        found = self._by_namespace.get(namespace)
        return found if found is not None else self._without.get(namespace, ())

    def _read(self) -> dict[str, Ranges]:
        with self._journal.read() as view:

            def take(namespace: str, name: str, body: bytes) -> None:
                parsed = parse_limit_range(decode(body))
                self._parsed.setdefault(namespace, {})[name] = parsed

            each_usable("limitranges", view.rows(self._type_id, None), take)
        return {namespace: _in_order(parsed) for namespace, parsed in self._parsed.items()}

    def _committed(self, events: Sequence[Event]) -> None:
        if self._by_namespace is None:
            return
        for event in events:
            if event.type_id != self._type_id:
                continue
            parsed = self._parsed.setdefault(event.namespace, {})
            if event.removed:
                parsed.pop(event.name, None)
            else:
                parsed[event.name] = parse_limit_range(decode(event.body))
            if parsed:
                self._by_namespace[event.namespace] = _in_order(parsed)
            else:
                del self._parsed[event.namespace]
                self._by_namespace.pop(event.namespace, None)


def _in_order(parsed: dict[str, LimitRange]) -> Ranges:
    return tuple(parsed[name] for name in sorted(parsed))


class LimitRanger(Plugin):
    name = "LimitRanger"
    thread_safe = True
    # Containers of a pod cannot change, so updates of pods are not checked again.
    mutates = (rule(CREATE, of=(PODS,)),)
    validates = (rule(CREATE, of=(PODS,)), rule(CREATE, UPDATE, of=(CLAIMS,)))

    def __init__(self, names: Names, ranges: LimitRanges) -> None:
        self._ranges = ranges
        self._annotation = names.key("limit-ranger")

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod, changed = request.object, False
        assert pod is not None
        ranges = self._of(request)
        check_growth(pod, ranges)
        for limit_range in ranges:
            if limit_range.default_limits or limit_range.default_requests:
                filled = _with_defaults(pod, limit_range, self._annotation)
                pod, changed = (filled, True) if filled is not None else (pod, changed)
        return pod if changed else None

    def validate(self, request: AdmissionRequest) -> None:
        ranges = self._of(request)
        if not ranges or (request.old is not None and "deletionTimestamp" in request.old["metadata"]):
            return
        new = request.object
        assert new is not None
        resource = request.definition.resource
        violations = pod_violations if resource == PODS else claim_violations
        for limit_range in ranges:
            if why := violations(limit_range, new):
                raise Forbidden(resource, request.name or new["metadata"]["name"], why)

    def _of(self, request: AdmissionRequest) -> Ranges:
        if request.in_thread:
            return trio.from_thread.run_sync(self._ranges.of, request.namespace)
        return self._ranges.of(request.namespace)


def check_growth(pod: Object, ranges: Ranges) -> None:
    """Refuse a pod that defaults make too large, before they are set: its containers times their names.

    Raises NeedsThread if it takes too long for the event loop.
    """
    limits = {name for one in ranges for name in one.default_limits}
    requests = {name for one in ranges for name in one.default_requests}
    containers = sum(len(pod["spec"].get(part) or ()) for part in ("containers", "initContainers"))
    values = containers * (len(limits) + len(requests))
    if values > MAX_VALUES:
        raise TooLarge(
            f"Request entity too large: the LimitRanges of the namespace would add {values} defaults to the containers "
            f"of the pod, at most {MAX_VALUES} are allowed: create it with fewer containers, or LimitRanges with "
            "defaults of fewer resources"
        )
    if values > MANY_VALUES:
        need_thread()


def _with_defaults(pod: Object, limit_range: LimitRange, annotation: str) -> Object | None:
    """The pod with default requests and limits, and an annotation that lists them; None if it lacks none."""
    spec, notes = dict(pod["spec"]), list[str]()
    for part, words in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(part):
            spec[part] = [_filled(one, limit_range, words, notes) for one in spec[part]]
    if not notes:
        return None
    metadata = pod["metadata"]
    text = f"LimitRanger plugin set: {'; '.join(notes)}"
    annotations = dict(sorted({**metadata.get("annotations", {}), annotation: text}.items()))
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": POD_SPEC.arranged(spec),
    }


def _filled(container: Object, limit_range: LimitRange, words: str, notes: list[str]) -> Object:
    check_time()
    resources = container["resources"]
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    added_limits = _missing(limit_range.default_limits, limits)
    added_requests = _missing(limit_range.default_requests, requests)
    if not added_limits and not added_requests:
        return container
    notes += _notes(added_requests, added_limits, f"{words} {container.get('name', '')}")
    filled = {
        "limits": dict(sorted({**limits, **added_limits}.items())),
        "requests": dict(sorted({**requests, **added_requests}.items())),
    }
    return {**container, "resources": {part: amounts for part, amounts in filled.items() if amounts}}


def _missing(defaults: Amounts, amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in defaults.items() if name not in amounts}


def _notes(requests: Amounts, limits: Amounts, whose: str) -> Iterator[str]:
    if requests:
        yield f"{', '.join(requests)} request for {whose}"
    if limits:
        yield f"{', '.join(limits)} limit for {whose}"
