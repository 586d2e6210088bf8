"""Priority: sets the priority of a pod from its priority class, and allows only one default class.

Classes are few and every pod needs one, so they are cached in memory; the feed keeps the cache up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

PODS: Final = Resource("", "pods")
NO_CLASS: Final[Object] = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}


class PriorityClasses:
    """All priority classes by name."""

    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        self.resource = Resource(names.group("scheduling"), "priorityclasses")
        self._journal = journal
        self._type_id = journal.type_id(str(self.resource))
        self._known: dict[str, Object] | None = None
        feed.follow(self._committed, frozenset({self._type_id}))

    def get(self, name: str) -> Object | None:
        return self._all().get(name)

    def default(self) -> Object | None:
        """The default class; if there are several, the one with the lowest value."""
        marked = [one for one in self._all().values() if one.get("globalDefault")]
        return min(marked, key=_value, default=None)

    def _all(self) -> dict[str, Object]:
        if self._known is None:
            known: dict[str, Object] = {}
            with self._journal.read() as view:
                each_usable("priorityclasses", view.rows(self._type_id, None), partial(_take, known))
            self._known = known
        return self._known

    def _committed(self, events: Sequence[Event]) -> None:
        if self._known is None:
            return
        for event in events:
            if event.type_id == self._type_id and event.removed:
                self._known.pop(event.name, None)
            elif event.type_id == self._type_id:
                _take(self._known, "", event.name, event.body)


def _take(known: dict[str, Object], _: str, name: str, body: bytes) -> None:
    found = decode(body)
    if type(found["value"]) is not int or type(found.get("globalDefault", False)) is not bool:
        raise TypeError("it has no value, or globalDefault is neither true nor false")
    known[name] = found


def _value(one: Object) -> int:
    value: int = one["value"]
    return value


class Priority(Plugin):
    name = "Priority"
    mutates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, classes: PriorityClasses) -> None:
        self._classes = classes
        self.validates = (rule(CREATE, UPDATE, of=(classes.resource,), subresources=None),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod, old = request.object, request.old
        assert pod is not None
        if old is None:
            return self._resolve(pod, request)
        return _keep(pod, old, "priority", "preemptionPolicy")

    def validate(self, request: AdmissionRequest) -> None:
        new = request.object
        assert new is not None
        other = self._classes.default() if new.get("globalDefault") else None
        if other is None or (request.operation == UPDATE and _name(other) == _name(new)):
            return
        why = f"PriorityClass {_name(other)} is already marked as default. Only one default can exist"
        raise forbidden(request, why)

    def _resolve(self, pod: Object, request: AdmissionRequest) -> Object:
        spec = dict(pod["spec"])
        found = self._class_of(spec, request)
        if "metadata" in found:
            spec["priorityClassName"] = _name(found)
        for part, source, words in (
            ("priority", "value", "the integer value of priority"),
            ("preemptionPolicy", "preemptionPolicy", "the string value of PreemptionPolicy"),
        ):
            computed = found.get(source)
            if computed is None:
                continue
            if spec.get(part, computed) != computed:
                why = (
                    f"{words} ({spec[part]}) must not be provided in pod spec; priority admission controller "
                    f"computed {computed} from the given PriorityClass name"
                )
                raise forbidden(request, why)
            spec[part] = computed
        return {**pod, "spec": POD_SPEC.arranged(spec)}

    def _class_of(self, spec: Object, request: AdmissionRequest) -> Object:
        name = spec.get("priorityClassName")
        if not name:
            return self._classes.default() or NO_CLASS
        found = self._classes.get(name)
        if found is None:
            raise forbidden(request, f"no PriorityClass with name {name} was found")
        return found


def _keep(pod: Object, old: Object, *parts: str) -> Object | None:
    """Keep fields that an update omits: clients that do not know them must not clear them."""
    kept = {part: old["spec"][part] for part in parts if part in old["spec"] and part not in pod["spec"]}
    if not kept:
        return None
    return {**pod, "spec": POD_SPEC.arranged({**pod["spec"], **kept})}


def _name(stored: Object) -> str:
    name: str = stored["metadata"].get("name", "")
    return name
