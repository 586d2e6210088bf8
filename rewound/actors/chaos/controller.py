"""The controller of Chaos objects: begins and ends their faults, and records each.

A fault of nodes is an annotation of Node objects, which `nodes.simulator` obeys: the journal has it with its author,
the account `chaos`, right before its effects, and a replay repeats it. Each fault is also an Event of the object and of
the nodes. A fault of the API is only in the status of the object (`active`), which `testing.faults` follows.

What has begun is in the status, written before the nodes are: after a restart the same faults go on, and those whose
time has passed meanwhile are left out. A finalizer makes sure that the faults of a deleted object end.

Several faults, also of several objects, may hold the same annotation of a node. Each knows what the annotation was
before the first of them began (`before`); the node has what all active ones make of it (`combined`), and the one that
ends last restores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rewound.actors.chaos.plan import (
    BAD_IMAGES,
    DEFAULT_BAD_IMAGES,
    GROUP,
    KIND,
    KINDS,
    TYPE_NAME,
    VERSION,
    ChaosError,
    Plan,
    PlannedFault,
    parse_plan,
)
from rewound.actors.errors import AlreadyExists, NotFound
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import micros_of, micros_text
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import each_usable
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.journal.records import Event

NAME: Final = "chaos"
FINALIZER: Final = f"{GROUP}/chaos"
_DEFINE: Final = ("/chaos", "define")  # no namespace can have this name
_MOST_NAMED: Final = 5  # nodes in the message of an Event


class ChaosController(WorkloadController):
    name, account = NAME, NAME

    def __init__(self, parts: Parts, *, defines: bool = False, fails_requests: bool = False) -> None:
        """`defines`: create the kind. `fails_requests`: whether the server can inject faults into requests."""
        super().__init__(parts)
        context = parts.context
        self._registry, self._journal, self._feed = context.registry, context.journal, context.feed
        self._defines, self._fails_requests = defines, fails_requests
        self._nodes = parts.cache.collection("nodes")
        self._zone = self.names.key("zone", "topology")
        self._followed: int | None = None
        self._registry.follow(self._kinds_changed)

    async def catch_up(self) -> None:
        await super().catch_up()
        self._follow()
        self._add_all()
        if self._defines:
            self.queue.add(_DEFINE)

    def _kinds_changed(self, _: Catalog, __: Catalog) -> None:
        if self._followed is None and self._definition() is not None:
            self._follow()
            self._add_all()

    def _definition(self) -> Definition | None:
        found = self._registry.current.stored_type(TYPE_NAME)
        return found.storage if found is not None else None

    def _follow(self) -> None:
        if self._followed is None and self._definition() is not None:
            self._followed = self._journal.type_id(TYPE_NAME)
            self._feed.follow(self._changed, frozenset({self._followed}))

    def _add_all(self) -> None:
        if self._followed is not None:
            with self._journal.read() as view:
                names = [name for _, name, _ in view.rows(self._followed, None)]
            for name in names:
                self.queue.add(("", name))

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._followed and not event.removed:
                self.queue.add(("", event.name))

    async def reconcile(self, key: Key) -> None:
        if key == _DEFINE:
            await self._define()
            return
        definition, name = self._definition(), key[1]
        if definition is None or self._followed is None:
            return
        with self._journal.read() as view:
            row = view.get(self._followed, "", name)
            stored = decode(bytes(row.body)) if row is not None else None
        if stored is not None:
            await self._advance(definition, stored)

    async def _define(self) -> None:
        definition = self._registry.current.storage(definition_type(self.names))
        document = definition.schema.decode_object(definition_of_kind(self.names)).object
        try:
            await self.client.create(definition, "", document)
        except AlreadyExists:
            return

    async def _advance(self, definition: Definition, stored: Object) -> None:
        """Begin and end what is due, and wait for what is next."""
        metadata, old = stored["metadata"], _faults_of(stored)
        try:
            plan = parse_plan(stored.get("spec") or {})
            self._check(plan)
        except ChaosError as error:
            await self._refuse(definition, stored, str(error))
            return
        if "deletionTimestamp" in metadata:
            await self._end_all(definition, stored, old)
            return
        if FINALIZER not in metadata.get("finalizers", ()):
            patch = {"metadata": {"finalizers": [*metadata.get("finalizers", ()), FINALIZER]}}
            await self.client.patch(definition, "", metadata["name"], patch)
            return  # that is a change, which makes the key due again
        elapsed = (self.now() - micros_of(metadata["creationTimestamp"])) / 1_000_000
        others = self._active_of_others(metadata["name"])
        new, wake = self._next_state(plan, old, elapsed, others)
        staying = [*others, *_active({name: new[name] for name in old if name in new}, begun_in=old)]
        for name, active in _ended(old, new):
            await self._settle(active, staying)
            self._record(definition, stored, name, active, begins=False)
        if new != old:
            faults = [{"name": name, **state} for name, state in new.items()]
            status: Object = {"faults": faults, "problem": None}
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
            await self.client.patch(definition, "", metadata["name"], patch, "merge", "status")
        for name, active in _ended(new, old):  # those that have begun
            self._record(definition, stored, name, active, begins=True)
        holding = [*others, *_active(new)]
        for active in _active(new):
            await self._settle(active, holding)
        if wake is not None:
            self.queue.add_after(("", metadata["name"]), max(0.001, wake - elapsed))

    def _check(self, plan: Plan) -> None:
        for fault in plan.faults:
            if fault.target is None and not self._fails_requests:
                raise ChaosError(f"{fault.name}: {fault.kind} needs a server with --enable-test-controls")

    def _next_state(
        self, plan: Plan, old: dict[str, Object], elapsed: float, others: list[Object]
    ) -> tuple[dict[str, Object], float | None]:
        """What has begun of each fault, and the seconds since the creation when that changes next."""
        new: dict[str, Object] = {}
        moments: list[float] = []
        for fault in plan.faults:
            state = dict(old.get(fault.name) or {"begun": 0})
            active = state.get("active")
            if active is not None and active.get("ends") is not None and elapsed >= active["ends"]:
                active = None
            while active is None:
                begins = fault.begins(plan.seed, state["begun"])
                if begins is None or begins > elapsed:
                    moments += [] if begins is None else [begins]
                    break
                number, state["begun"] = state["begun"], state["begun"] + 1
                ends = None if fault.lasts is None else begins + fault.lasts
                if ends is None or ends > elapsed:  # otherwise its time has passed
                    active = self._begun(
                        plan.seed, fault, number, ends, [*others, *_active(old), *_active(new)]
                    )
            state.pop("active", None)
            if active is not None:
                state["active"] = active
                moments += [] if active.get("ends") is None else [active["ends"]]
            new[fault.name] = state
        return new, min(moments, default=None)

    def _begun(
        self, seed: int, fault: PlannedFault, number: int, ends: float | None, others: list[Object]
    ) -> Object:
        active: Object = {"number": number, "kind": fault.kind, "since": micros_text(self.now())}
        if ends is not None:
            active["ends"] = ends
        if fault.target is None:
            return {**active, "rules": fault.document}
        source = fault.source(seed, number)
        source.random()  # that of the time
        nodes = fault.target.chosen(list(self._nodes), self._zone, source)
        active |= {"nodes": nodes, "annotations": dict(fault.annotations)}
        found = {name: self._before(name, fault.annotations, others) for name in nodes}
        before = {name: values for name, values in found.items() if values}
        return {**active, "before": before} if before else active

    def _before(self, node: str, keys: Iterable[str], others: list[Object]) -> dict[str, str]:
        """The annotations of a node as they were before any fault that is active."""
        current = self._annotations_of(node)
        for key in keys:
            if held := _holding(others, node, key):
                current = {**current, key: held[0].get("before", {}).get(node, {}).get(key)}
        return {key: current[key] for key in keys if current.get(key) is not None}

    def _active_of_others(self, name: str) -> list[Object]:
        """The active faults of all other objects."""
        assert self._followed is not None
        found: list[Object] = []
        with self._journal.read() as view:
            rows = (row for row in view.rows(self._followed, None) if row[1] != name)
            each_usable("chaos", rows, lambda _, __, body: found.extend(_active(_faults_of(decode(body)))))
        return found

    def _annotations_of(self, node: str) -> dict[str, str]:
        stored = self._nodes.get("", node)
        return (stored["metadata"].get("annotations") or {}) if stored is not None else {}

    async def _settle(self, fault: Object, active: list[Object]) -> None:
        """Give the nodes of a fault, which may have ended, the annotations that all active faults make of them."""
        for node in fault.get("nodes", ()):
            current = self._annotations_of(node)
            before = fault.get("before", {}).get(node, {})
            changed = {}
            for key, value in fault["annotations"].items():
                held = _holding(active, node, key)
                if not held and not _is_from(current.get(key), value):
                    continue  # somebody else has changed it meanwhile
                wanted = combined(key, before.get(key), held)
                if current.get(key) != wanted:
                    changed[key] = wanted
            if changed:
                await self._annotate(node, changed)

    async def _annotate(self, node: str, annotations: dict[str, Any]) -> None:
        try:
            patch = {"metadata": {"annotations": annotations}}
            await self.client.patch(self._nodes.definition, "", node, patch)
        except NotFound:
            return

    def _record(
        self, definition: Definition, stored: Object, name: str, active: Object, begins: bool
    ) -> None:
        """Record the fault as an Event of the object, and of each node."""
        nodes, chaos = active.get("nodes"), stored["metadata"]["name"]
        reason, verb = ("FaultBegan", "began") if begins else ("FaultEnded", "ended")
        where = ""
        if nodes is not None:
            shown = ", ".join(nodes[:_MOST_NAMED]) or "no node matches"
            where = f": {shown}" + (
                f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
            )
        self.recorder.event(definition, stored, "Normal", reason, f"{active['kind']} {name} {verb}{where}")
        for one in nodes or ():
            if (node := self._nodes.get("", one)) is not None:
                kind = "Warning" if begins else "Normal"
                message = f"{active['kind']} {name} of chaos {chaos} {verb}"
                self.recorder.event(self._nodes.definition, node, kind, reason, message)

    async def _end_all(self, definition: Definition, stored: Object, old: dict[str, Object]) -> None:
        metadata = stored["metadata"]
        others = self._active_of_others(metadata["name"])
        for name, active in _ended(old, {}):
            await self._settle(active, others)
            self._record(definition, stored, name, active, begins=False)
        left = [one for one in metadata.get("finalizers", ()) if one != FINALIZER]
        if left != metadata.get("finalizers", []):
            try:
                patch = {"metadata": {"finalizers": left or None}}
                await self.client.patch(definition, "", metadata["name"], patch)
            except NotFound:
                return

    async def _refuse(self, definition: Definition, stored: Object, problem: str) -> None:
        if "deletionTimestamp" in stored["metadata"]:
            await self._end_all(definition, stored, _faults_of(stored))
        elif (stored.get("status") or {}).get("problem") != problem:
            self.recorder.event(definition, stored, "Warning", "InvalidChaos", problem)
            patch = {"status": {"problem": problem}}
            await self.client.patch(definition, "", stored["metadata"]["name"], patch, "merge", "status")


def _faults_of(stored: Object) -> dict[str, Object]:
    """What the status says of each fault, by its name."""
    return {
        one["name"]: {key: value for key, value in one.items() if key != "name"}
        for one in (stored.get("status") or {}).get("faults") or ()
    }


def _active(states: dict[str, Object], begun_in: dict[str, Object] | None = None) -> list[Object]:
    """The active faults among states; with `begun_in`, those that were active there already."""
    found = []
    for name, state in states.items():
        active = state.get("active")
        if active is None:
            continue
        earlier = None if begun_in is None else begun_in[name].get("active")
        if begun_in is None or (earlier is not None and earlier["number"] == active["number"]):
            found.append(active)
    return found


def _holding(active: list[Object], node: str, key: str) -> list[Object]:
    """The faults that hold an annotation of a node, in the order in which they began."""
    found = [one for one in active if key in one.get("annotations", ()) and node in one.get("nodes", ())]
    return sorted(found, key=lambda one: one["since"])


def _is_from(current: str | None, value: str) -> bool:
    """Whether an annotation may be what faults made of it, this one among them."""
    return current is not None and set(value.split(",")) <= set(current.split(","))


def combined(key: str, before: str | None, faults: list[Object]) -> str | None:
    """What an annotation is while these faults hold it: patterns of images add up, of other values the newest counts.

    `before` is what it was without them.
    """
    if not faults:
        return before
    values = [str(one["annotations"][key]) for one in faults]
    if key != BAD_IMAGES:
        return values[-1]
    every = ",".join((DEFAULT_BAD_IMAGES if before is None else before, *values))
    return ",".join(dict.fromkeys(pattern for part in every.split(",") if (pattern := part.strip())))


def _ended(before: dict[str, Object], after: dict[str, Object]) -> list[tuple[str, Object]]:
    """The faults that are active before, and not after."""
    found = []
    for name, state in before.items():
        active, later = state.get("active"), after.get(name, {}).get("active")
        if active is not None and (later is None or later["number"] != active["number"]):
            found.append((name, active))
    return found


def definition_of_kind(names: Names) -> Object:
    preserved = f"{names.extension_prefix}preserve-unknown-fields"
    text = {"type": "string"}
    fault: Object = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("name", "after", "every", "jitter", "for"), text),
            "times": {"type": "integer"},
            **{kind: {"type": "object", preserved: True} for kind in KINDS},
        },
    }
    spec = {
        "type": "object",
        "required": ["faults"],
        "properties": {
            "seed": {"type": "integer", "format": "int64"},
            "faults": {"type": "array", "items": fault},
        },
    }
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": {"type": "object", preserved: True}},
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    of_kind = {"kind": KIND, "listKind": "ChaosList", "plural": "chaos", "singular": "chaos"}
    return {
        "metadata": {"name": TYPE_NAME},
        "spec": {"group": GROUP, "names": of_kind, "scope": "Cluster", "versions": [version]},
    }
