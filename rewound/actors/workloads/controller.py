"""The base of workload controllers.

    class ReplicaSets(WorkloadController):
        name, account = "replicaset", "replicaset-controller"

        def __init__(self, parts: Parts) -> None:
            super().__init__(parts)
            self._sets = self.keyed_by("replicasets.apps")
            self._pods = self.dependents("pods", self._sets)

        async def reconcile(self, key: Key) -> None: ...

A controller reads the cache only. It decides without an `await` between what it reads and what it then writes; after a
write it reads again. Whatever a version check refuses (`Conflict`) is retried by the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.namespace_slots import shared_slots
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.kinds.declaration.meta import LabelMatcher, label_selector_matches
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import Cache, CachedType, Key, controller_of, key_of
from rewound.actors.workloads.pod_room import PodRoom
from rewound.actors.workloads.recorder import EventWriter, Recorder
from rewound.journal.records import Event

MANY: Final = 200  # pods
SECONDS_FOR_EACH: Final = 0.00002
CHANGED: Final = "/changed"  # what stands in keys for the name of an object, and cannot be one
_FEW_OWNERS: Final = 20
_FEW_REQUIREMENTS: Final = 100


@dataclass(frozen=True, slots=True)
class Parts:
    """What all workload controllers of a server share."""

    context: ControllerContext
    cache: Cache
    events: EventWriter
    room: PodRoom

    @classmethod
    def of(cls, context: ControllerContext) -> Parts:
        cache = Cache(context)
        return cls(context, cache, EventWriter(context), PodRoom(context, cache))


class Pace:
    """How often a pass looks at all pods of a key where they are many: each change of one asks for a pass.

    A pass takes a few microseconds of processor time for each pod, so passes of one key take a quarter of a processor
    at most, however many pods a user has.
    """

    def __init__(self, queue: WorkQueue[Key], at_least: float = 0.0) -> None:
        """`at_least`: seconds between two passes over `MANY` pods."""
        self._queue = queue
        self._at_least = at_least
        self._passed: dict[Key, float] = {}  # when, by trio's clock

    def is_too_soon(self, key: Key, count: int, beside: int = 1) -> bool:
        """Whether a pass over so many pods comes too soon after the last one; then the key is due later.

        `beside`: how many keys look at the same pods, and share what there is.
        """
        if count < MANY and count * beside < 10 * MANY:
            self._passed.pop(key, None)
            return False
        now = trio.current_time()
        due = self._passed.get(key, -math.inf) + max(self._at_least, count * beside * SECONDS_FOR_EACH)
        if now < due:
            self._queue.add_after(key, due - now)
            return True
        self._passed[key] = now
        return False

    def forget(self, key: Key) -> None:
        self._passed.pop(key, None)


class Concerned:
    """Finds the objects of a namespace that select a changed pod.

    Listeners are called for every change of every pod, so where there are more than a few such objects they only note
    the change: a key of the queue stands for what is noted of a namespace, and its pass takes turns.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        owners: CachedType,
        selecting: Callable[[Object], Callable[[Object], bool]],
        take: Callable[[Object, Sequence[Object]], None],
    ) -> None:
        """`selecting` makes of an object what says whether it selects a pod; `take` gets the pod and those that do."""
        self._queue, self._owners, self._selecting, self._take = queue, owners, selecting, take
        # The pods of each namespace by name and labels, by which they are selected.
        self._noted: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Object]] = {}

    def changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._look_or_note(pod)

    def _look_or_note(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        owners = self._owners.in_namespace(namespace)
        if len(owners) <= _FEW_OWNERS and not any(is_long(one["spec"].get("selector")) for one in owners):
            self._take(pod, [one for one in owners if self._selecting(one)(pod)])
            return
        labels = frozenset((pod["metadata"].get("labels") or {}).items())
        self._noted.setdefault(namespace, {})[name, labels] = pod
        self._queue.add((namespace, CHANGED))

    async def look(self, namespace: str) -> None:
        """Handle what was noted; called for the key CHANGED of a namespace."""
        pods = self._noted.pop(namespace, {}).values()
        await in_turns(self._find(self._owners.in_namespace(namespace), [(pod, []) for pod in pods]))

    def _find(self, owners: Iterable[Object], found: list[tuple[Object, list[Object]]]) -> Steps[None]:
        """`found`: the pods, and those that select each, which are none yet."""
        for owner in tuple(owners):
            selects = self._selecting(owner)
            for part in parts_of(found):
                for pod, selected_by in part:
                    if selects(pod):
                        selected_by.append(owner)
                yield
        for part in parts_of(found):
            for pod, selected_by in part:
                self._take(pod, selected_by)
            yield


def is_long(selector: Object | None) -> bool:
    """Whether it takes long to match a label selector; that of a Service has labels only."""
    return len((selector or {}).get("matchExpressions", ())) > _FEW_REQUIREMENTS


def may_match(selector: Object, labels: Mapping[str, str]) -> bool:
    """For listeners, which are called for every change: a long selector is left to the pass of its object."""
    return is_long(selector) or label_selector_matches(selector, labels)


class WorkloadController:
    name: str  # as --controllers and v1.25 name it
    account: str  # the service account that it writes as
    component: str = ""  # the source of its Events; "": the account
    observed_types: frozenset[int] = frozenset()  # the cache reports changes

    def __init__(self, parts: Parts) -> None:
        context = parts.context
        self.names = context.names
        self.cache = parts.cache
        self.random = context.write_contexts.random
        self._clock = context.clock
        self.client = Client.of_account(
            context.directory,
            context.write_contexts,
            context.names,
            self.account,
            parts.room.check,
            shared_slots(),
        )
        self.recorder = Recorder(parts.events, self.client, self.component or self.account)
        self.queue: WorkQueue[Key] = WorkQueue()
        self._keyed: list[CachedType] = []
        self._adopting: list[Concerned] = []

    def keyed_by(self, type_name: str) -> CachedType:
        """The objects whose keys are reconciled: every change of one adds its key, and so does the start."""
        collection = self.cache.collection(type_name)
        collection.listen(partial(_add_key, self.queue))
        self._keyed.append(collection)
        return collection

    def dependents(self, type_name: str, owners: CachedType) -> CachedType:
        """The objects that those of `owners` control: a change of one adds the key of its owner.

        That of an object without a controller adds the keys of those that may adopt it. Where these are many, a key
        with the name CHANGED stands for them, for which `reconcile` calls `look_for_owners`.
        """
        collection = self.cache.collection(type_name)
        adopting = Concerned(self.queue, owners, _may_adopt, partial(_add_keys, self.queue))
        self._adopting.append(adopting)
        collection.listen(partial(_add_owners, self.queue, owners, adopting))
        return collection

    async def look_for_owners(self, namespace: str) -> None:
        for one in self._adopting:
            await one.look(namespace)

    def now(self) -> int:
        """The time in microseconds since 1970."""
        return self._clock.now()

    def now_text(self) -> str:
        """The time as it stands in objects, in seconds."""
        return seconds_text(self._clock.now())

    def observe(self, events: Sequence[Event]) -> None:
        """Nothing: see `observed_types`."""

    async def catch_up(self) -> None:
        await self.cache.loaded()
        for collection in self._keyed:
            await collection.visit(lambda stored: self.queue.add(key_of(stored)))

    async def reconcile(self, key: Key) -> None:
        raise NotImplementedError


def _add_key(queue: WorkQueue[Key], old: Object | None, new: Object | None) -> None:
    stored = new if new is not None else old
    assert stored is not None
    queue.add(key_of(stored))


def _may_adopt(owner: Object) -> Callable[[Object], bool]:
    matcher = LabelMatcher(owner["spec"].get("selector") or {})
    return lambda dependent: matcher.matches(dependent["metadata"].get("labels") or {})


def _add_keys(queue: WorkQueue[Key], _: Object, owners: Sequence[Object]) -> None:
    for owner in owners:
        queue.add(key_of(owner))


def _add_owners(
    queue: WorkQueue[Key],
    owners: CachedType,
    adopting: Concerned,
    old: Object | None,
    new: Object | None,
) -> None:
    before = None if old is None else controller_of(old)
    after = None if new is None else controller_of(new)
    if before is not None and before != after:
        _add_owner(queue, owners, old, before)
    if after is not None:
        _add_owner(queue, owners, new, after)
    elif new is not None:
        labels = new["metadata"].get("labels") or {}
        if before is not None or old is None or labels != (old["metadata"].get("labels") or {}):
            adopting.changed(None, new)


def _add_owner(
    queue: WorkQueue[Key], owners: CachedType, dependent: Object | None, reference: Object
) -> None:
    if dependent is None or reference["kind"] != owners.definition.kind:
        return
    owner = owners.get(dependent["metadata"].get("namespace", ""), reference["name"])
    if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
        queue.add(key_of(owner))
