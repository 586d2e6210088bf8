"""LimitRanger: sets the default requests and limits of pods, and refuses pods and claims outside the LimitRanges.

Every pod needs the LimitRanges of its namespace, so they are parsed once and cached; the feed keeps the cache up to
date. They apply in the order of their names. In the cluster dialect, a container in the namespace `default` requests
0.1 CPU if it does not say otherwise, while that namespace has no LimitRange.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import trio

from actors.admission.plugin import Plugin, rule
from actors.admission.plugins.limit_constraints import (
    Amounts,
    LimitRange,
    claim_violations,
    parse_limit_range,
    pod_violations,
)
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Forbidden, Resource
from actors.kinds.core.pods.spec import POD_SPEC
from actors.messages import Object
from actors.names import Names
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

PODS: Final = Resource("", "pods")
CLAIMS: Final = Resource("", "persistentvolumeclaims")
WITHOUT_LIMIT_RANGE: Final = LimitRange((), {}, {"cpu": "100m"})  # in `default`, in the cluster dialect

Ranges = tuple[LimitRange, ...]


class LimitRanges:
    """The parsed LimitRanges of all namespaces, by namespace and in the order of their names."""

    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        self._journal = journal
        self._type_id = journal.type_id("limitranges")
        self._without = {"default": (WITHOUT_LIMIT_RANGE,)} if names.dialect == "cluster" else {}
        self._parsed: dict[str, dict[str, LimitRange]] = {}
        self._by_namespace: dict[str, Ranges] | None = None
        feed.follow(self._committed, frozenset({self._type_id}))

    def of(self, namespace: str) -> Ranges:
        """Not in a thread."""
        if self._by_namespace is None:
            self._by_namespace = self._read()
        found = self._by_namespace.get(namespace)
        return found if found is not None else self._without.get(namespace, ())

    def _read(self) -> dict[str, Ranges]:
        with self._journal.read() as view:
            for namespace, name, row in view.rows(self._type_id, None):
                self._parsed.setdefault(namespace, {})[name] = parse_limit_range(decode(row.body))
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
        for limit_range in self._of(request):
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


def _with_defaults(pod: Object, limit_range: LimitRange, annotation: str) -> Object | None:
    """The pod with default requests and limits, and an annotation that names them; None if it lacks none."""
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
