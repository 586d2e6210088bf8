"""RuntimeClass: a pod gets the overhead, node selector and tolerations of its runtime class, which must exist.

A pod may set its overhead only to the value of its class.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.plugins.tolerations import merged
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.core.resources import nanos
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
NO_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class _Class(msgspec.Struct, frozen=True):
    overhead: dict[str, str] | None  # amounts by resource; None: the class has no overhead
    scheduling: Object | None


class RuntimeClass(Plugin):
    name = "RuntimeClass"
    mutates = validates = (rule(CREATE, of=(PODS,)),)

    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        resource = Resource(names.group("node"), "runtimeclasses")
        self._classes = CachedObjects(resource, journal, feed, _parsed)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        found = self._class_of(pod, request)
        if found is None or (found.overhead is None and found.scheduling is None):
            return None
        spec = dict(pod["spec"])
        if found.overhead is not None:
            _set_overhead(spec, found.overhead, request)
        if found.scheduling is not None:
            _set_scheduling(spec, found.scheduling, request)
        return {**pod, "spec": POD_SPEC.arranged(spec)}

    def validate(self, request: AdmissionRequest) -> None:
        """Again, because a webhook may have changed the pod."""
        pod = request.object
        assert pod is not None
        found, overhead = self._class_of(pod, request), pod["spec"].get("overhead")
        if found is not None and found.overhead is not None:
            if not _equal(found.overhead, overhead or {}):
                raise forbidden(request, OTHER_OVERHEAD)
        elif overhead is not None:
            raise forbidden(request, NO_OVERHEAD)

    def _class_of(self, pod: Object, request: AdmissionRequest) -> _Class | None:
        name = pod["spec"].get("runtimeClassName")
        if name is None:
            return None
        found = self._classes.all().get(name)
        if found is None:
            raise forbidden(request, f"pod rejected: RuntimeClass {quoted_start(name)} not found")
        return found


def _parsed(stored: Object) -> _Class:
    overhead = stored.get("overhead")
    amounts = None if overhead is None else dict(overhead.get("podFixed") or {})
    return _Class(amounts, stored.get("scheduling"))


def _equal(one: dict[str, str], other: dict[str, str]) -> bool:
    return one.keys() == other.keys() and all(nanos(one[name]) == nanos(other[name]) for name in one)


def _set_overhead(spec: Object, overhead: dict[str, str], request: AdmissionRequest) -> None:
    own = spec.pop("overhead", None)
    if own is not None and not _equal(overhead, own):
        raise forbidden(request, OTHER_OVERHEAD)
    if overhead:
        spec["overhead"] = dict(overhead)


def _set_scheduling(spec: Object, scheduling: Object, request: AdmissionRequest) -> None:
    wanted, own = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            conflict = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise forbidden(request, f"conflict: {conflict}; pod.spec.nodeSelector[{key}] = {own[key]}")
    if wanted:
        spec["nodeSelector"] = dict(sorted({**own, **wanted}.items()))
    tolerations = merged(spec.get("tolerations", ()), scheduling.get("tolerations", ()))
    if tolerations:
        spec["tolerations"] = tolerations
