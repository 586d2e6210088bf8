"""Stages, the objects by which users of kwok define what pods and nodes do (kwok.x-k8s.io/v1alpha1).

`Stage` is one of them, compiled: whether it matches an object, its weight, its delay, and its steps. `StageSet` has
those of one kind and chooses. `StageFollower` updates the sets when Stage objects change: their kind is a custom one,
whose definition the simulator creates.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson
import trio

from rewound.actors.controllers.context import ControllerContext
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.values.times import duration_error, duration_seconds, parse_time
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.nodes.jq import QueryError, compile_query
from rewound.actors.nodes.templates import Template
from rewound.actors.patch.errors import MalformedPatch, PatchTooLarge
from rewound.actors.patch.json_patch import parse_json_patch
from rewound.actors.runtime.steps import Steps
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.store.document import decode
from rewound.journal.records import Event

logger = logging.getLogger(__name__)

GROUP, VERSION, PLURAL = "kwok.x-k8s.io", "v1alpha1", "stages"
TYPE_NAME: Final = f"{PLURAL}.{GROUP}"
KINDS: Final = ("Pod", "Node")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_STEPS: Final = ("event", "finalizers", "delete", "patch")
_PATCH_TYPES: Final = ("json", "merge", "strategic")
_RFC_3339: Final = "2006-01-02T15:04:05Z07:00"
Query = Callable[[Any], list[Any] | None]  # raises QueryError
Report = Callable[["Stage", str], None]  # why it cannot be used
_LONGEST_NUMBER: Final = 64  # characters
_MOST_WEIGHT: Final = 1 << 53
# Bytes of a Stage, whose templates and queries are parsed when it changes, and of one that is parsed in the event loop.
MOST_BYTES: Final = 256 << 10
_SMALL: Final = 1 << 10


class StageError(ValueError):
    """A Stage has something invalid or unsupported."""


class StagePatch(NamedTuple):
    template: Template
    root: str = "status"
    subresource: str = "status"
    patch_format: str = "strategic"

    def document(self, rendered: Any) -> Object | list[Object]:
        """The patch of a rendered template; empty: nothing to do. Raises StageError if it is no valid patch."""
        if rendered is None:
            return {}
        try:
            orjson.dumps(rendered)
        except TypeError as error:  # YAML has keys and numbers that JSON does not
            raise StageError(f"the template made something that JSON cannot say: {error}") from error
        if self.patch_format == "json":
            return self._operations(rendered)
        if not isinstance(rendered, dict):
            raise StageError(
                f"a {self.patch_format} patch has to be an object; the template made something else"
            )
        return {self.root: rendered} if self.root else rendered

    def _operations(self, rendered: Any) -> list[Object]:
        try:
            operations = parse_json_patch(rendered)
        except (MalformedPatch, PatchTooLarge) as error:
            raise StageError(str(error)) from error
        if not self.root:
            return operations
        return [{**one, "path": f"/{self.root}{one.get('path') or ''}"} for one in operations]


class StageStep(NamedTuple):
    """Exactly one of these."""

    event: Object | None = None
    finalizers: Object | None = None
    delete: bool = False
    patch: StagePatch | None = None


class Stage:
    def __init__(self, stored: Object) -> None:
        """Raises StageError if the object is invalid or uses something unsupported."""
        self.name: str = stored["metadata"]["name"]
        spec: Object = stored.get("spec") or {}
        self.kind = _kind_of(spec.get("resourceRef") or {})
        selector = spec.get("selector")
        self._selects_nothing = selector is None
        self._labels: Object = (selector or {}).get("matchLabels") or {}
        self._annotations: Object = (selector or {}).get("matchAnnotations") or {}
        self._expressions = [_expression(one) for one in (selector or {}).get("matchExpressions") or ()]
        self._weight: int = spec.get("weight") or 0
        self._weight_from = _query_from(spec.get("weightFrom"))
        delay: Object = spec.get("delay") or {}
        self._delay = _Delay(delay.get("durationMilliseconds") or 0, _query_from(delay.get("durationFrom")))
        self._jitter = _Delay(
            delay.get("jitterDurationMilliseconds"), _query_from(delay.get("jitterDurationFrom"))
        )
        self.steps = _steps(spec)

    def matches(self, stored: Object) -> Steps[bool]:
        """Whether it matches an object, with a pause after each query. Raises QueryError."""
        metadata = stored["metadata"]
        if (
            self._selects_nothing
            or not _contains(metadata.get("labels") or {}, self._labels)
            or not _contains(metadata.get("annotations") or {}, self._annotations)
        ):
            return False
        for expression in self._expressions:
            if not expression(stored):
                return False
            yield
        return True

    def weight(self, stored: Object) -> int | None:
        """The weight; None if it comes from the object, and is no number there. Raises QueryError."""
        if self._weight_from is None or not (found := self._weight_from(stored)):
            return self._weight
        value = found[0]
        try:
            if isinstance(value, str):
                value = int(value[:_LONGEST_NUMBER], 0) if value else None
            number = int(value) if isinstance(value, (int, float)) else self._weight
        except (ValueError, OverflowError):  # for NaN and infinity
            return None
        return None if value is None else min(number, _MOST_WEIGHT)

    def delay(self, stored: Object, now: int, source: random.Random) -> float:
        """The delay in seconds. Raises QueryError."""
        seconds = self._delay.seconds(stored, now)
        if seconds is None:
            return 0.0
        jitter = self._jitter.seconds(stored, now)
        if jitter is None:
            return max(0.0, seconds)
        if jitter <= seconds:
            return max(0.0, jitter)
        return max(0.0, seconds + source.random() * (jitter - seconds))


class StageSet:
    """The Stages of one kind; without any, its objects are not affected."""

    def __init__(self, stages: Iterable[Stage] = ()) -> None:
        self._stages = sorted(stages, key=lambda stage: stage.name)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def choose(self, stored: Object, source: random.Random, report: Report) -> Steps[Stage | None]:
        """Choose one of the matching Stages by weight: those without one only if none has one.

        A Stage whose queries cost too much does not match; `report` gets it with the reason.
        """
        weighted: list[tuple[Stage, int | None]] = []
        for stage in self._stages:
            try:
                if (yield from stage.matches(stored)):
                    weighted.append((stage, stage.weight(stored)))
            except QueryError as error:
                report(stage, str(error))
            yield
        return _chosen(weighted, source)


def _chosen(weighted: Sequence[tuple[Stage, int | None]], source: random.Random) -> Stage | None:
    matching, weights = [stage for stage, _ in weighted], [weight for _, weight in weighted]
    if len(matching) < 2:
        return matching[0] if matching else None
    if any(weight is not None and weight > 0 for weight in weights):
        return source.choices(matching, [max(weight or 0, 0) for weight in weights])[0]
    weighed = [stage for stage, weight in zip(matching, weights, strict=True) if weight is not None]
    return source.choice(weighed or matching)


@dataclass(frozen=True, slots=True)
class _Delay:
    milliseconds: int | None
    query: Query | None

    def seconds(self, stored: Object, now: int) -> float | None:
        if self.query is not None and (found := self.query(stored)) and isinstance(found[0], str):
            text = found[0]
            if not text:
                return None
            if not duration_error(text):
                return duration_seconds(text)
            try:
                return parse_time(text, _RFC_3339).timestamp() - now / 1_000_000
            except ValueError:
                pass
        return None if self.milliseconds is None else self.milliseconds / 1000


def _kind_of(reference: Object) -> str:
    kind: str = reference.get("kind", "")
    group = reference.get("apiGroup", "v1") or "v1"
    if group != "v1" or kind not in KINDS:
        raise StageError(
            f"spec.resourceRef: {group} {kind} is not played here; use v1 with {' or '.join(KINDS)}"
        )
    return kind


def _contains(all_of: Object, wanted: Object) -> bool:
    return all(all_of.get(key) == value for key, value in wanted.items())


def _expression(one: Object) -> Callable[[Object], bool]:
    if "cel" in one:
        raise StageError("spec.selector.matchExpressions: cel is not supported; use jq, or key and operator")
    described = one.get("jq") or one
    operator, values = described.get("operator", ""), frozenset(described.get("values") or ())
    if operator not in _OPERATORS:
        raise StageError(
            f"spec.selector.matchExpressions: the operator {operator!r} is none of {', '.join(_OPERATORS)}"
        )
    if bool(values) != (operator in ("In", "NotIn")):
        needs = "needs values" if operator in ("In", "NotIn") else "takes no values"
        raise StageError(f"spec.selector.matchExpressions: {operator} {needs}")
    query = _compiled(described.get("key", ""), "spec.selector.matchExpressions")

    def found_in(stored: Object) -> bool:
        found = query(stored)
        if operator in ("In", "NotIn"):
            return any(_text_of(value) in values for value in found or ())
        return bool(found)

    positive = operator in ("In", "Exists")
    return lambda stored: found_in(stored) is positive


def _text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


def _query_from(source: Object | None) -> Query | None:
    if not source:
        return None
    if "cel" in source:
        raise StageError("cel is not supported; use expressionFrom or jq")
    text = (source.get("jq") or {}).get("expression") or source.get("expressionFrom", "")
    return _compiled(text, "expressionFrom")


def _compiled(text: str, where: str) -> Query:
    try:
        return compile_query(text)
    except (ValueError, RecursionError) as error:  # also from numbers and strings in it
        raise StageError(f"{where}: {error}") from error


def _steps(spec: Object) -> list[StageStep]:
    if spec.get("steps"):
        return [_step(one) for one in spec["steps"]]
    following: Object = spec.get("next") or {}
    steps = []
    if following.get("event"):
        steps.append(StageStep(event=following["event"]))
    if following.get("finalizers"):
        steps.append(StageStep(finalizers=following["finalizers"]))
    if following.get("delete"):
        return [*steps, StageStep(delete=True)]
    if following.get("statusTemplate"):
        template = _template(following["statusTemplate"], "spec.next.statusTemplate")
        steps.append(StageStep(patch=StagePatch(template)))
    steps += [StageStep(patch=_patch(one)) for one in following.get("patches") or ()]
    return steps


def _step(one: Object) -> StageStep:
    unknown = one.keys() - _STEPS
    if unknown:
        raise StageError(f"spec.steps: {min(unknown)} is not supported; use {', '.join(_STEPS)}")
    patch = _patch(one["patch"]) if one.get("patch") else None
    return StageStep(one.get("event"), one.get("finalizers"), bool(one.get("delete")), patch)


def _patch(one: Object) -> StagePatch:
    if one.get("impersonation"):
        raise StageError("patch: impersonation is not supported")
    patch_format = one.get("type") or "strategic"
    if patch_format not in _PATCH_TYPES:
        raise StageError(f"patch: the type {patch_format!r} is none of {', '.join(_PATCH_TYPES)}")
    template = _template(one.get("template", ""), "patch.template")
    return StagePatch(template, one.get("root", ""), one.get("subresource", ""), patch_format)


def _template(text: str, where: str) -> Template:
    try:
        return Template(text)
    except (ValueError, RecursionError) as error:
        raise StageError(f"{where}: {error}") from error


def changed_finalizers(current: Sequence[str], change: Object) -> list[str]:
    kept: list[str] = [] if change.get("empty") else list(current)
    removed = {one.get("value") for one in change.get("remove") or ()}
    kept = [one for one in kept if one not in removed]
    added = [one["value"] for one in change.get("add") or () if one.get("value")]
    return kept + [one for one in added if one not in kept]


class StageFollower:
    """The stored Stages of every kind."""

    def __init__(
        self,
        context: ControllerContext,
        stale: Callable[[], None],
        changed: Callable[[Sequence[tuple[Object, str]]], None],
    ) -> None:
        """`stale` requests a call of `read`. `changed` gets the unusable Stages, with reasons, after a change."""
        self._registry, self._journal, self._feed = context.registry, context.journal, context.feed
        self._stale, self._changed = stale, changed
        self._type_id: int | None = None
        self._sets: dict[str, StageSet] = {}
        self._parsed: dict[str, tuple[int, Stage | None]] = {}  # by name, with the version

    def of(self, kind: str) -> StageSet:
        return self._sets.get(kind) or _NONE

    async def start(self) -> None:
        self._registry.follow(self._kinds_changed)
        self._kinds_changed(self._registry.current, self._registry.current)
        await self.read()

    def _kinds_changed(self, _: Catalog, current: Catalog) -> None:
        if self._type_id is not None or current.stored_type(TYPE_NAME) is None:
            return
        self._type_id = self._journal.type_id(TYPE_NAME)
        self._feed.follow(self._observe, frozenset({self._type_id}))
        self._stale()

    def _observe(self, events: Sequence[Event]) -> None:
        if any(event.type_id == self._type_id for event in events):
            self._stale()

    async def read(self) -> None:
        """Parse the Stages that are new or have changed; a large one in a thread."""
        if self._type_id is None:
            return
        with self._journal.read() as view:
            rows = [(name, row.offset, bytes(row.body)) for _, name, row in view.rows(self._type_id, None)]
        parsed: dict[str, tuple[int, Stage | None]] = {}
        problems = []
        for name, version, body in rows:
            if name in self._parsed and self._parsed[name][0] == version:
                parsed[name] = self._parsed[name]
                continue
            if len(body) < _SMALL:
                stage, problem = _parsed(body)
            else:
                stage, problem = await run_in_thread(_parsed, body)
            parsed[name] = version, stage
            if problem:
                problems.append((decode(body), problem))
            await trio.lowlevel.checkpoint()
        self._parsed = parsed
        stages: dict[str, list[Stage]] = {}
        for _, stage in parsed.values():
            if stage is not None:
                stages.setdefault(stage.kind, []).append(stage)
        self._sets = {kind: StageSet(found) for kind, found in stages.items()}
        self._changed(problems)


def _parsed(body: bytes) -> tuple[Stage | None, str]:
    """A Stage, or why it is invalid."""
    try:
        if len(body) > MOST_BYTES:
            raise StageError(f"it has {len(body)} bytes; at most {MOST_BYTES} are allowed")
        return Stage(decode(body)), ""
    except StageError as error:
        return None, str(error)


_NONE: Final = StageSet()


def definition(names: Names) -> Object:
    """The CustomResourceDefinition of Stages: the fields that are read here have types, others are preserved."""
    preserved = f"{names.extension_prefix}preserve-unknown-fields"

    def fields(**properties: Object) -> Object:
        return {"type": "object", "properties": properties, preserved: True}

    text, number = {"type": "string"}, {"type": "integer", "format": "int64", "minimum": 0}
    texts = {"type": "object", "additionalProperties": text}
    source = fields(expressionFrom=text, jq=fields(expression=text))
    requirement: Object = {"key": text, "operator": text, "values": {"type": "array", "items": text}}
    selector = fields(
        matchLabels=texts,
        matchAnnotations=texts,
        matchExpressions={"type": "array", "items": fields(**requirement, jq=fields(**requirement))},
    )
    delay = fields(
        durationMilliseconds=number,
        durationFrom=source,
        jitterDurationMilliseconds=number,
        jitterDurationFrom=source,
    )
    items = {"type": "array", "items": fields(value=text)}
    taken = {
        "event": fields(type=text, reason=text, message=text),
        "finalizers": fields(add=items, remove=items, empty={"type": "boolean"}),
        "delete": {"type": "boolean"},
    }
    patch = fields(subresource=text, root=text, template=text, type=text)
    following = fields(**taken, statusTemplate=text, patches={"type": "array", "items": patch})
    spec = fields(
        resourceRef={**fields(apiGroup={**text, "default": "v1"}, kind=text), "required": ["kind"]},
        selector=selector,
        weight={**number, "default": 0},
        weightFrom=source,
        delay=delay,
        next=following,
        steps={"type": "array", "items": fields(**taken, patch=patch)},
    )
    document = {"type": "object", "properties": {"spec": {**spec, "required": ["resourceRef"]}}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {**document, "required": ["spec"]}},
    }
    stage_names = {"kind": "Stage", "listKind": "StageList", "plural": PLURAL, "singular": "stage"}
    return {
        "metadata": {"name": TYPE_NAME},
        "spec": {"group": GROUP, "names": stage_names, "scope": "Cluster", "versions": [version]},
    }
