"""The controller of Stages: reads them, plays those of any kind, and says in their status whether they match.

It follows the types that Stages name, and no others, and keeps no objects: a changed object is a key of its queue, and
is read when its turn comes. So kinds without Stages cost nothing, and a kind with them one read for each change.
Pods and nodes are left to `nodes.simulator`, which plays them only on simulated nodes; it reads the Stages from the
`StageBook` that both share.

The condition `Matching` of a Stage is False if it is invalid, if its kind does not exist, or if nothing has matched for
a minute; it becomes True when something has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from rewound.actors.cel.kwok import language_of_stages
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.namespace_slots import shared_slots
from rewound.actors.controllers.stored_objects import each_stored
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import AlreadyExists, NotFound
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.stages.definitions import GROUP, STAGES, WITHOUT_EFFECT, definitions
from rewound.actors.stages.player import StagePlayer
from rewound.actors.stages.stage import NO_STAGES, KindReference, Stage, StageError, StageSet
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import report
from rewound.actors.versions.features import V1_25
from rewound.actors.workloads.cache import key_of
from rewound.actors.workloads.controller import Parts
from rewound.actors.workloads.recorder import Recorder
from rewound.actors.workloads.usage_rules import USAGES, UsageError, UsageRule
from rewound.journal.records import Event

NAME: Final = "stages"
POD, NODE = ("v1", "Pod"), ("v1", "Node")
# Bytes of a Stage, whose templates and queries are parsed when it changes, and of one that is parsed in the event loop.
MOST_BYTES: Final = 256 << 10
_SMALL: Final = 1 << 10
_UNMATCHED_SECONDS: Final = 60.0
_CONDITION: Final = "Matching"

StageKey = tuple[str, str, str]  # type name, namespace and name
_DEFINE: Final = ("", "/stages", "define")  # no namespace can have this name
_READ: Final = ("", "/stages", "read")
_STATUS: Final = "/status of stages"  # takes the place of a type name; the name is that of a Stage


class StageBook:
    """The usable Stages by kind. The controller of Stages replaces them; whoever plays them reads."""

    def __init__(self) -> None:
        self._sets: dict[KindReference, StageSet] = {}
        self._followers: list[Callable[[], None]] = []
        self._read = trio.Event()

    def of(self, kind: KindReference) -> StageSet:
        return self._sets.get(kind, NO_STAGES)

    def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the Stages have changed."""
        self._followers.append(changed)

    async def loaded(self) -> None:
        """Wait until the stored Stages have been read."""
        await self._read.wait()

    def replace(self, stages: Iterable[Stage]) -> None:
        by_kind: dict[KindReference, list[Stage]] = {}
        for stage in stages:
            by_kind.setdefault(stage.kind, []).append(stage)
        self._sets = {kind: StageSet(found) for kind, found in by_kind.items()}
        self._read.set()
        for changed in self._followers:
            changed()


def empty_book() -> StageBook:
    """That of a server that plays no Stages."""
    book = StageBook()
    book.replace(())
    return book


@dataclass(slots=True)
class _Known:
    """A stored Stage, as its controller has read it."""

    spec: tuple[str, int]  # uid and generation
    stage: Stage | None
    problem: str = ""
    since: float = field(default_factory=trio.current_time)


@dataclass(frozen=True, slots=True)
class _Played:
    """A type that Stages name."""

    definition: Definition
    stages: StageSet


class Stages:
    name = NAME
    observed_types: frozenset[int] = frozenset()  # those of `_follow` change

    def __init__(
        self, parts: Parts, book: StageBook, version: str = V1_25.patch_release, *, defines: bool = False
    ) -> None:
        """`defines`: create the kinds of kwok. `version` is that of Kubernetes."""
        context = parts.context
        self._context, self._book, self._defines = context, book, defines
        self._registry, self._journal, self._feed = context.registry, context.journal, context.feed
        self._language = language_of_stages(context.names)
        self.queue: WorkQueue[StageKey] = WorkQueue()
        self._client = Client.of_account(
            context.directory,
            context.write_contexts,
            context.names,
            NAME,
            parts.room.check,
            shared_slots(),
        )
        self._recorder = Recorder(parts.events, self._client, NAME)
        self._player = StagePlayer(context, self._client, self._recorder, version)
        self._known: dict[str, _Known] = {}
        self._played: dict[str, _Played] = {}  # by type name
        self._types: dict[int, str] = {}  # followed types
        self._follows_kinds = False

    def observe(self, events: Sequence[Event]) -> None:
        """Do nothing: see `observed_types`."""

    async def catch_up(self) -> None:
        self._player.reset()
        self._known.clear()
        self._played.clear()
        if not self._follows_kinds:
            self._registry.follow(self._kinds_changed)
            self._follows_kinds = True
        await self._read_stages(first=True)
        if self._defines:
            self.queue.add(_DEFINE)

    async def reconcile(self, key: StageKey) -> None:
        type_name, namespace, name = key
        if key == _DEFINE:
            await self._define_kinds()
        elif key == _READ:
            await self._read_stages()
        elif type_name == _STATUS:
            await self._report_matching(name)
        elif type_name in WITHOUT_EFFECT or type_name in USAGES:
            self._report_problem(type_name, namespace, name)
        else:
            await self._play(type_name, namespace, name)

    async def _define_kinds(self) -> None:
        """Create the kinds, so that users of kwok can use their files."""
        definition = self._registry.current.storage(definition_type(self._context.names))
        for one in definitions(self._context.names):
            try:
                await self._client.create(definition, "", definition.schema.decode_object(one).object)
            except AlreadyExists:
                continue

    def _kinds_changed(self, _: Catalog, current: Catalog) -> None:
        if current.group_exists(GROUP):
            self.queue.add(_READ)

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            type_name = self._types.get(event.type_id)
            if type_name is None:
                continue
            if type_name == STAGES:
                self.queue.add(_READ)
            elif (type_name in WITHOUT_EFFECT or type_name in USAGES) and not event.removed:
                self.queue.add((type_name, event.namespace, event.name))
            if (played := self._played.get(type_name)) is None:
                continue
            if event.removed:
                self._player.forget(played.definition, (event.namespace, event.name))
            else:
                self.queue.add((type_name, event.namespace, event.name))

    async def _read_stages(self, *, first: bool = False) -> None:
        """Compile the Stages that are new or have changed, and play all objects of their kinds."""
        self._follow()  # before the read, so that no change is lost
        if self._registry.current.stored_type(STAGES) is None:
            if first:
                self._book.replace(())
            return
        with self._journal.read() as view:
            rows = [
                (name, bytes(row.body)) for _, name, row in view.rows(self._journal.type_id(STAGES), None)
            ]
        before, self._known = self._known, {}
        for name, body in rows:
            try:
                self._known[name] = await self._known_stage(name, body, before.get(name))
            except OF_MISFITS as error:
                report("stages", "", name, error)
        usable = [known.stage for known in self._known.values() if known.stage is not None]
        if first or self._known != before:
            self._book.replace(usable)
        await self._play_kinds(usable)

    async def _compiled(self, body: bytes, stored: Object) -> tuple[Stage | None, str]:
        """A Stage, or why it is invalid; a large one is parsed in a thread."""
        try:
            if len(body) > MOST_BYTES:
                raise StageError(f"it has {len(body)} bytes; at most {MOST_BYTES} are allowed")
            if len(body) < _SMALL:
                return Stage(stored, self._language), ""
            return await run_in_thread(Stage, stored, self._language), ""
        except StageError as error:
            return None, str(error)

    async def _known_stage(self, name: str, body: bytes, known: _Known | None) -> _Known:
        stored = decode(body)
        metadata = stored["metadata"]
        spec = (metadata["uid"], metadata.get("generation", 0))
        if known is None or known.spec != spec:
            known = _Known(spec, *await self._compiled(body, stored))
            self._added(stored, known)
        return known

    def _added(self, stored: Object, known: _Known) -> None:
        key = (_STATUS, "", stored["metadata"]["name"])
        if known.problem:
            definition = self._registry.current.storage(STAGES)
            self._recorder.event(definition, stored, "Warning", "InvalidStage", known.problem)
            self.queue.add(key)
        else:
            self.queue.add_after(key, _UNMATCHED_SECONDS)

    async def _play_kinds(self, usable: Sequence[Stage]) -> None:
        """Follow the types of these Stages, and play the objects of those whose Stages have changed."""
        by_type: dict[str, tuple[Definition, list[Stage]]] = {}
        for stage in usable:
            if stage.kind not in (POD, NODE) and (definition := self._definition(stage.kind)) is not None:
                by_type.setdefault(definition.type_name, (definition, []))[1].append(stage)
        before, self._played = self._played, {}
        for type_name, (definition, stages) in by_type.items():
            self._played[type_name] = _Played(definition, StageSet(stages))
        self._follow()
        for type_name in before.keys() - self._played:
            self._player.reset(type_name)
        for type_name, played in self._played.items():
            if before.get(type_name) != played:
                self._player.reset(type_name)
                type_id = self._journal.type_id(type_name)
                async for stored in each_stored(self._journal, type_id, None):
                    self.queue.add((type_name, *key_of(stored)))

    def _definition(self, kind: KindReference) -> Definition | None:
        """The definition in which a kind is stored; None: there is no such kind, or it is stored as another."""
        found = self._registry.current.of_kind(*kind)
        if found is None or not found.is_stored:
            return None
        stored = self._registry.current.storage(found.type_name)
        return found if found == stored or found.storage.versions is not None else None

    def _follow(self) -> None:
        stored = self._registry.current.stored_type
        names = [name for name in (STAGES, *USAGES, *WITHOUT_EFFECT) if stored(name) is not None]
        types = {self._journal.type_id(name): name for name in (*names, *self._played)}
        if types != self._types:
            if self._types:
                self._feed.unfollow(self._changed)
            self._types = types
            if types:
                self._feed.follow(self._changed, frozenset(types))

    def _report_problem(self, type_name: str, namespace: str, name: str) -> None:
        """Record an Event for an object of kwok that means nothing here, or is invalid, whenever it changes."""
        stored, found = (
            self._stored(type_name, namespace, name),
            self._registry.current.stored_type(type_name),
        )
        if stored is None or found is None:
            return
        if type_name in WITHOUT_EFFECT:
            message = WITHOUT_EFFECT[type_name]
            self._recorder.event(found.storage, stored, "Warning", "NotSimulated", message)
            return
        try:
            UsageRule(stored, self._context.names)
        except UsageError as error:
            self._recorder.event(found.storage, stored, "Warning", "InvalidUsage", str(error))

    def _stored(self, type_name: str, namespace: str, name: str) -> Object | None:
        with self._journal.read() as view:
            row = view.get(self._journal.type_id(type_name), namespace, name)
            return decode(bytes(row.body)) if row is not None else None

    async def _play(self, type_name: str, namespace: str, name: str) -> None:
        played = self._played.get(type_name)
        if played is None:
            return
        stored = self._stored(type_name, namespace, name)
        if stored is None:
            self._player.forget(played.definition, (namespace, name))
            return
        stored["metadata"].pop("managedFields", None)
        seconds = await self._player.play(played.stages, played.definition, stored, self._client, {})
        if seconds is not None:
            self.queue.add_after((type_name, namespace, name), seconds)

    async def _report_matching(self, name: str) -> None:
        """Write the condition of a Stage, and look again after a minute while nothing matches."""
        stored, known = self._stored(STAGES, "", name), self._known.get(name)
        if stored is None or known is None:
            return
        conditions = (stored.get("status") or {}).get("conditions") or []
        old: Object = next((one for one in conditions if one.get("type") == _CONDITION), {})
        generation = stored["metadata"].get("generation", 0)
        is_current = old.get("observedGeneration") == generation
        if is_current and old.get("status") == "True":
            return
        matches, reason, message = self._matching(known)
        if not matches and not known.problem:
            left = known.since + _UNMATCHED_SECONDS - trio.current_time()
            self.queue.add_after((_STATUS, "", name), left if left > 0 else _UNMATCHED_SECONDS)
            if left > 0:
                return
        if is_current and (old.get("reason"), old.get("message")) == (reason, message):
            return
        new = {
            "type": _CONDITION,
            "status": "True" if matches else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": seconds_text(self._context.clock.now()),
        }
        others = [one for one in conditions if one.get("type") != _CONDITION]
        version = stored["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "status": {"conditions": [*others, new]}}
        definition = self._registry.current.storage(STAGES)
        try:
            await self._client.patch(definition, "", name, patch, "merge", "status")
        except NotFound:  # it is gone, or its definition has no status
            return

    def _matching(self, known: _Known) -> tuple[bool, str, str]:
        if known.stage is None:
            return False, "InvalidStage", known.problem
        api_version, kind = known.stage.kind
        if known.stage.has_matched:
            return True, "Matched", f"a {kind} has matched"
        found = self._registry.current.of_kind(api_version, kind)
        if found is None:
            return False, "NoSuchKind", f"there is no kind {kind} in {api_version}"
        if self._definition(known.stage.kind) is None:
            stored = self._registry.current.stored_type(found.type_name)
            stored_as = stored.storage.api_version if stored is not None and found.is_stored else "nothing"
            message = (
                f"{kind} of {api_version} is stored as {stored_as}; name that in spec.resourceRef.apiGroup"
            )
            return False, "OtherVersion", message
        if known.stage.kind in (POD, NODE):
            return False, "NothingMatched", f"no {kind} of a simulated node has matched for a minute"
        return False, "NothingMatched", f"no {kind} has matched for a minute"
