"""Plays Stages on objects: chooses the next one of an object, waits for its delay, and takes its steps.

The controller of any kind and that of simulated nodes each have a player. They call `play` whenever an object has
changed, and again after the time that it returns. A player remembers only what waits for a delay.

Statuses are written by the client that the caller gives, such as that of a node, and everything else by the account of
Stages: a node may not be allowed to. A step with `impersonation` is written as that user, who needs the rights.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import trio

from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
from rewound.actors.cel.kwok import QueryError
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.errors import Conflict, NotFound, RequestError
from rewound.actors.identity import AUTHENTICATED, User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.budget import OverBudget
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.turns import in_turns
from rewound.actors.stages.budget import StageBudget, fitting
from rewound.actors.stages.stage import (
    Moment,
    Stage,
    StageApply,
    StageError,
    StagePatch,
    StageSet,
    changed_finalizers,
)
from rewound.actors.stages.templates import Function, TemplateError, template_budget
from rewound.actors.workloads.cache import Key, key_of
from rewound.actors.workloads.recorder import Recorder

MANAGER: Final = "kwok"  # of the fields that impersonated users write
_SMALL: Final = 512  # characters of YAML parsed in the event loop, which takes five microseconds for each
_MOST_COST: Final = 100_000_000  # estimated nanoseconds to compute the size of a document

# Type, status, reason and message of the conditions of a healthy node, as kwok has them.
_NODE_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
)


@dataclass(frozen=True, slots=True)
class _Due:
    """The Stage chosen for a version of an object, and when its delay ends."""

    version: str
    stage: Stage
    time: float


class StagePlayer:
    def __init__(self, context: ControllerContext, client: Client, recorder: Recorder, version: str) -> None:
        """`client` and `recorder` are those of the account of Stages; `version` is that of Kubernetes."""
        self._context, self._client, self._recorder = context, client, recorder
        self._random: random.Random = context.write_contexts.random
        self._version = version
        self._due: dict[tuple[str, Key], _Due] = {}

    def reset(self, type_name: str = "") -> None:
        """Forget what waits, of one type or of all: Stages have changed, or another process has led in between."""
        if type_name:
            self._due = {place: due for place, due in self._due.items() if place[0] != type_name}
        else:
            self._due.clear()

    def forget(self, definition: Definition, key: Key) -> None:
        """Forget an object, because it is gone."""
        self._due.pop((definition.type_name, key), None)

    async def play(
        self,
        stages: StageSet,
        definition: Definition,
        stored: Object,
        client: Client,
        functions: Mapping[str, Function],
    ) -> float | None:
        """Take the steps of the next Stage of an object, if they are due; else return the seconds until then.

        `client` writes its status; `functions` are those of templates that depend on the kind.
        """
        place, now = (definition.type_name, key_of(stored)), trio.current_time()
        due = self._due.get(place)
        if due is None or due.version != stored["metadata"]["resourceVersion"]:
            due = await self._choose(stages, definition, stored)
            if due is None:
                self._due.pop(place, None)
                return None
            self._due[place] = due
        if due.time > now:
            return due.time - now
        self._due.pop(place, None)
        try:
            await self._take_steps(due.stage, definition, stored, client, functions)
        except (TemplateError, NotYaml) as error:
            self._report(definition, stored, due.stage, str(error))
        return None

    async def _choose(self, stages: StageSet, definition: Definition, stored: Object) -> _Due | None:
        def report(stage: Stage, reason: str) -> None:
            self._report(definition, stored, stage, reason)

        whole = _whole(definition, stored)
        moment = Moment(self._context.clock.now(), self._random)
        stage = await in_turns(stages.choose(whole, moment, report))
        if stage is None:
            return None
        try:
            delay = await in_turns(stage.delay(whole, moment))
        except QueryError as error:
            report(stage, f"spec.delay: {error}")
            return None
        return _Due(stored["metadata"]["resourceVersion"], stage, trio.current_time() + delay)

    def _report(self, definition: Definition, stored: Object, stage: Stage, reason: str) -> None:
        self._recorder.event(definition, stored, "Warning", "InvalidStage", f"stage {stage.name}: {reason}")

    async def _take_steps(
        self,
        stage: Stage,
        definition: Definition,
        stored: Object,
        client: Client,
        functions: Mapping[str, Function],
    ) -> None:
        for step in stage.steps:
            if step.event is not None:
                kind, reason, message = (step.event.get(part, "") for part in ("type", "reason", "message"))
                self._recorder.event(definition, stored, kind or "Normal", reason, message)
            if step.finalizers is not None:
                await self._change_finalizers(step.finalizers, definition, stored)
            if step.delete:
                # A kubelet deletes its pods, and not its Node.
                own = definition.kind == "Pod" and not definition.group
                await delete(definition, stored, client if own else self._client)
                return
            if step.patch is not None:
                await self._patch(step.patch, definition, stored, client, functions)
            if step.apply is not None:
                await self._apply(step.apply, definition, stored, functions)

    async def _change_finalizers(self, change: Object, definition: Definition, stored: Object) -> None:
        current = stored["metadata"].get("finalizers") or []
        changed = changed_finalizers(current, change)
        if changed != current:
            patch = {"metadata": {"finalizers": changed or None}}
            try:
                await self._client.patch(definition, *key_of(stored), patch)
            except NotFound:
                return

    async def _patch(
        self,
        patch: StagePatch,
        definition: Definition,
        stored: Object,
        client: Client,
        functions: Mapping[str, Function],
    ) -> None:
        rendered = await self._rendered(patch, definition, stored, functions)
        if not rendered:
            return
        if patch.user:
            client = self._client_of(patch.user)
        elif patch.subresource != "status":
            client = self._client
        try:
            await client.patch(definition, *key_of(stored), rendered, patch.patch_format, patch.subresource)
        except NotFound:
            return
        except Conflict:
            raise
        except RequestError as refused:
            raise TemplateError(f"the patch was refused: {refused}") from refused

    async def _apply(
        self, apply: StageApply, definition: Definition, stored: Object, functions: Mapping[str, Function]
    ) -> None:
        applied = await self._rendered(apply, definition, stored, functions)
        assert isinstance(applied, dict)
        api_version, kind = applied["apiVersion"], applied["kind"]
        target = self._context.registry.current.of_kind(api_version, kind)
        if target is None:
            raise TemplateError(f"apply: there is no kind {kind} in {api_version}")
        metadata = dict(applied["metadata"])
        namespace = ""
        if target.namespaced:
            namespace = metadata.setdefault("namespace", stored["metadata"].get("namespace", ""))
        applied = {**applied, "metadata": metadata}
        client = self._client_of(apply.user) if apply.user else self._client
        place = target, namespace, str(metadata.get("name", ""))
        try:
            if apply.patch_format != "apply":
                try:
                    await client.patch(*place, applied, apply.patch_format, apply.subresource)
                    return
                except NotFound:
                    if apply.subresource:
                        raise
            await client.apply(*place, applied, apply.subresource, may_create=not apply.subresource)
        except Conflict:
            raise
        except RequestError as refused:
            raise TemplateError(f"apply of {kind} {place[2]} was refused: {refused}") from refused

    async def _rendered(
        self,
        part: StagePatch | StageApply,
        definition: Definition,
        stored: Object,
        functions: Mapping[str, Function],
    ) -> Object | list[Object]:
        available = {**self._functions(), **functions}
        text = await in_turns(part.template.steps(_whole(definition, stored), available, template_budget()))
        try:
            if len(text) <= _SMALL:
                return _document(part, text)
            return await run_in_thread(_document, part, text)
        except StageError as error:
            raise TemplateError(f"the patch was refused: {error}") from error

    def _functions(self) -> dict[str, Function]:
        now = seconds_text(self._context.clock.now())
        conditions = [
            {"type": kind, "status": status, "reason": reason, "message": message}
            for kind, status, reason, message in _NODE_CONDITIONS
        ]
        return {
            "Now": lambda: now,
            "StartTime": lambda: now,
            "Version": lambda: self._version,
            "NodeConditions": lambda: conditions,
        }

    def _client_of(self, user: str) -> Client:
        context = self._context
        identity = User(user, groups=(AUTHENTICATED,))
        return Client(context.directory, context.write_contexts, identity, MANAGER, context.authorizer)


def _whole(definition: Definition, stored: Object) -> Object:
    """An object as clients get it: stored objects have no kind, and those of built-in kinds no apiVersion."""
    return {"apiVersion": definition.api_version, "kind": definition.kind, **stored}


async def delete(definition: Definition, stored: Object, client: Client) -> None:
    options = DeleteOptions(uid=stored["metadata"]["uid"], grace_period_seconds=0)
    try:
        await client.delete(definition, *key_of(stored), options)
    except (NotFound, Conflict):
        return


def _document(part: StagePatch | StageApply, text: str) -> Object | list[Object]:
    """Parse a rendered template. Raises NotYaml, or StageError if it is too large."""
    found = load_yaml(text.encode())
    try:
        fitting(StageBudget(_MOST_COST, _MOST_COST).size(found))  # with aliases, which may refer to aliases
    except (OverBudget, RecursionError) as error:
        raise StageError(f"the template made too large a document: {error}") from error
    return part.document(found)
