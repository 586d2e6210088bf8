"""One Stage, compiled: whether it matches an object, its weight, its delay, and its steps.

`StageSet` has those of one kind, and chooses among those that match.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from rewound.actors.cel.kwok import MOST_PAUSES, QueryError, compile_expression
from rewound.actors.cel.language import Language
from rewound.actors.cel.values import Duration
from rewound.actors.kinds.values.times import duration_error, duration_seconds, parse_time
from rewound.actors.messages import Object
from rewound.actors.patch.errors import MalformedPatch, PatchTooLarge
from rewound.actors.patch.json_patch import parse_json_patch
from rewound.actors.runtime.budget import StepBudget
from rewound.actors.runtime.steps import Steps
from rewound.actors.stages.jq import compile_query, query_budget
from rewound.actors.stages.templates import Template

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_STEPS: Final = ("event", "finalizers", "delete", "patch", "apply")
_PATCH_TYPES: Final = ("json", "merge", "strategic")
_APPLY_TYPES: Final = ("apply", "merge", "strategic")
_STRATEGIC: Final = (("v1", "Pod"), ("v1", "Node"))  # for other kinds the default is merge, as for kwok
_RFC_3339: Final = "2006-01-02T15:04:05Z07:00"
_LONGEST_NUMBER: Final = 64  # characters
_MOST_WEIGHT: Final = 1 << 53


class Moment(NamedTuple):
    """When an expression is evaluated, and its source of random numbers."""

    now: int  # microseconds since 1970
    source: random.Random


KindReference = tuple[str, str]  # apiVersion and kind
# The values that a query or a CEL expression finds in an object; None: none. Raises QueryError.
Query = Callable[[Object, Moment], list[Any] | None]
Report = Callable[["Stage", str], None]  # why it cannot be used


class StageError(ValueError):
    """A Stage has something invalid or unsupported."""


class StagePatch(NamedTuple):
    template: Template
    root: str = "status"
    subresource: str = "status"
    patch_format: str = "strategic"
    user: str = ""  # whom the patch is written as; "": the account of Stages

    def document(self, rendered: Any) -> Object | list[Object]:
        """The patch of a rendered template; empty: nothing to do. Raises StageError if it is no valid patch."""
        if rendered is None:
            return {}
        check_json(rendered)
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


class StageApply(NamedTuple):
    """Another object, which is created or changed."""

    template: Template
    subresource: str = ""
    patch_format: str = "apply"
    user: str = ""

    def document(self, rendered: Any) -> Object:
        """The object of a rendered template. Raises StageError if it is none."""
        check_json(rendered)
        named = isinstance(rendered, dict) and isinstance(rendered.get("metadata"), dict)
        if not named or not all(isinstance(rendered.get(part), str) for part in ("apiVersion", "kind")):
            raise StageError("apply: the template has to make an object with apiVersion, kind and metadata")
        found: Object = rendered
        return found


def check_json(rendered: Any) -> None:
    try:
        orjson.dumps(rendered)
    except TypeError as error:  # YAML has keys and numbers that JSON does not
        raise StageError(f"the template made something that JSON cannot say: {error}") from error


class StageStep(NamedTuple):
    """Exactly one of these."""

    event: Object | None = None
    finalizers: Object | None = None
    delete: bool = False
    patch: StagePatch | None = None
    apply: StageApply | None = None


class Stage:
    def __init__(self, stored: Object, language: Language) -> None:
        """Raises StageError if the object is invalid or uses something unsupported."""
        self.name: str = stored["metadata"]["name"]
        spec: Object = stored.get("spec") or {}
        reference: Object = spec.get("resourceRef") or {}
        self.kind: KindReference = reference.get("apiGroup") or "v1", reference.get("kind", "")
        self.has_matched = False
        compiler = _Compiler(language, "strategic" if self.kind in _STRATEGIC else "merge")
        selector = spec.get("selector")
        self._selects_nothing = selector is None
        self._labels: Object = (selector or {}).get("matchLabels") or {}
        self._annotations: Object = (selector or {}).get("matchAnnotations") or {}
        self._expressions = list(map(compiler.requirement, (selector or {}).get("matchExpressions") or ()))
        self._weight: int = spec.get("weight") or 0
        self._weight_from = compiler.value_from(spec.get("weightFrom"), "spec.weightFrom")
        delay: Object = spec.get("delay") or {}
        self._delay = _Delay(
            delay.get("durationMilliseconds") or 0,
            compiler.value_from(delay.get("durationFrom"), "spec.delay.durationFrom"),
        )
        self._jitter = _Delay(
            delay.get("jitterDurationMilliseconds"),
            compiler.value_from(delay.get("jitterDurationFrom"), "spec.delay.jitterDurationFrom"),
        )
        self.steps = compiler.steps(spec)

    def matches(self, stored: Object, moment: Moment) -> Steps[bool]:
        """Whether it matches an object, with a pause after each query. Raises QueryError."""
        metadata = stored["metadata"]
        if (
            self._selects_nothing
            or not _contains(metadata.get("labels") or {}, self._labels)
            or not _contains(metadata.get("annotations") or {}, self._annotations)
        ):
            return False
        for expression in self._expressions:
            if not expression(stored, moment):
                return False
            yield
        return True

    def weight(self, stored: Object, moment: Moment) -> int | None:
        """The weight; None if it comes from the object, and is no number there. Raises QueryError."""
        if self._weight_from is None or not (found := self._weight_from(stored, moment)):
            return self._weight
        value = found[0]
        try:
            if isinstance(value, str):
                value = int(value[:_LONGEST_NUMBER], 0) if value else None
            number = int(value) if isinstance(value, (int, float)) else self._weight
        except (ValueError, OverflowError):  # for NaN and infinity
            return None
        return None if value is None else min(number, _MOST_WEIGHT)

    def delay(self, stored: Object, moment: Moment) -> Steps[float]:
        """The delay in seconds, with a pause between two queries. Raises QueryError."""
        seconds = self._delay.seconds(stored, moment)
        if seconds is None:
            return 0.0
        yield
        jitter = self._jitter.seconds(stored, moment)
        if jitter is None:
            return max(0.0, seconds)
        if jitter <= seconds:
            return max(0.0, jitter)
        return max(0.0, seconds + moment.source.random() * (jitter - seconds))


class StageSet:
    """The Stages of one kind; without any, its objects are not affected."""

    def __init__(self, stages: Iterable[Stage] = ()) -> None:
        self._stages = sorted(stages, key=lambda stage: stage.name)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StageSet) and self._stages == other._stages

    def __hash__(self) -> int:
        return hash(tuple(self._stages))

    def choose(self, stored: Object, moment: Moment, report: Report) -> Steps[Stage | None]:
        """Choose one of the matching Stages by weight: those without one only if none has one.

        A Stage whose queries cost too much does not match; `report` gets it with the reason.
        """
        weighted: list[tuple[Stage, int | None]] = []
        for stage in self._stages:
            try:
                if (yield from stage.matches(stored, moment)):
                    stage.has_matched = True
                    yield
                    weighted.append((stage, stage.weight(stored, moment)))
            except QueryError as error:
                report(stage, str(error))
            yield
        return _chosen(weighted, moment.source)


NO_STAGES: Final = StageSet()


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

    def seconds(self, stored: Object, moment: Moment) -> float | None:
        found = self.query(stored, moment) if self.query is not None else None
        value = found[0] if found else None
        if isinstance(value, Duration):
            return value.nanoseconds / 1_000_000_000
        if isinstance(value, str):
            if not value:
                return None
            if not duration_error(value):
                return duration_seconds(value)
            try:
                return parse_time(value, _RFC_3339).timestamp() - moment.now / 1_000_000
            except ValueError:
                pass
        return None if self.milliseconds is None else self.milliseconds / 1000


def _contains(all_of: Object, wanted: Object) -> bool:
    return all(all_of.get(key) == value for key, value in wanted.items())


class _Compiler:
    """Compiles the parts of one Stage. Every method raises StageError, which names the part."""

    def __init__(self, language: Language, patch_format: str) -> None:
        """`patch_format` is that of patches without a type."""
        self._language, self._patch_format = language, patch_format

    def requirement(self, one: Object) -> Callable[[Object, Moment], bool]:
        where = "spec.selector.matchExpressions"
        if one.get("cel"):
            condition = self._cel(one["cel"], where)
            return lambda stored, moment: condition(stored, moment) == [True]
        described = one.get("jq") or one
        operator, values = described.get("operator", ""), frozenset(described.get("values") or ())
        if operator not in _OPERATORS:
            raise StageError(f"{where}: the operator {operator!r} is none of {', '.join(_OPERATORS)}")
        if bool(values) != (operator in ("In", "NotIn")):
            needs = "needs values" if operator in ("In", "NotIn") else "takes no values"
            raise StageError(f"{where}: {operator} {needs}")
        query = self._jq(described.get("key", ""), where)

        def found_in(stored: Object, moment: Moment) -> bool:
            found = query(stored, moment)
            if operator in ("In", "NotIn"):
                return any(_text_of(value) in values for value in found or ())
            return bool(found)

        positive = operator in ("In", "Exists")
        return lambda stored, moment: found_in(stored, moment) is positive

    def value_from(self, source: Object | None, where: str) -> Query | None:
        if not source:
            return None
        if source.get("cel"):
            return self._cel(source["cel"], where)
        return self._jq((source.get("jq") or {}).get("expression") or source.get("expressionFrom", ""), where)

    def _cel(self, source: Object, where: str) -> Query:
        try:
            evaluate = compile_expression(source.get("expression", ""), ("self",), self._language)
        except (ValueError, RecursionError) as error:
            raise StageError(f"{where}: {error}") from error

        def query(stored: Object, moment: Moment) -> list[Any] | None:
            found = evaluate({"self": stored}, moment.now, moment.source, StepBudget(MOST_PAUSES))
            return None if found is None else [found]

        return query

    def _jq(self, text: str, where: str) -> Query:
        try:
            query = compile_query(text)
        except (ValueError, RecursionError) as error:  # also from numbers and strings in it
            raise StageError(f"{where}: {error}") from error
        return lambda stored, _: query(stored, query_budget())

    def steps(self, spec: Object) -> list[StageStep]:
        if spec.get("steps"):
            return [self._step(one) for one in spec["steps"]]
        following: Object = spec.get("next") or {}
        steps = []
        if following.get("event"):
            steps.append(StageStep(event=following["event"]))
        if following.get("finalizers"):
            steps.append(StageStep(finalizers=following["finalizers"]))
        if following.get("delete"):
            return [*steps, StageStep(delete=True)]
        if following.get("statusTemplate"):
            steps.append(StageStep(patch=self._status(following)))
        steps += [StageStep(patch=self._patch(one)) for one in following.get("patches") or ()]
        return steps

    def _status(self, following: Object) -> StagePatch:
        template = _template(following["statusTemplate"], "spec.next.statusTemplate")
        subresource = following.get("statusSubresource", "status")
        user = _user({"impersonation": following.get("statusPatchAs")})
        return StagePatch(template, "status", subresource, self._patch_format, user)

    def _step(self, one: Object) -> StageStep:
        unknown = one.keys() - _STEPS
        if unknown:
            raise StageError(f"spec.steps: {min(unknown)} is not supported; use {', '.join(_STEPS)}")
        patch = self._patch(one["patch"]) if one.get("patch") else None
        apply = _apply(one["apply"]) if one.get("apply") else None
        return StageStep(one.get("event"), one.get("finalizers"), bool(one.get("delete")), patch, apply)

    def _patch(self, one: Object) -> StagePatch:
        patch_format = _choice("patch", one.get("type") or self._patch_format, _PATCH_TYPES)
        template = _template(one.get("template", ""), "patch.template")
        return StagePatch(template, one.get("root", ""), one.get("subresource", ""), patch_format, _user(one))


def _apply(one: Object) -> StageApply:
    patch_format = _choice("apply", one.get("type") or "apply", _APPLY_TYPES)
    template = _template(one.get("template", ""), "apply.template")
    return StageApply(template, one.get("subresource", ""), patch_format, _user(one))


def _choice(where: str, given: str, known: Sequence[str]) -> str:
    if given not in known:
        raise StageError(f"{where}: the type {given!r} is none of {', '.join(known)}")
    return given


def _user(one: Object) -> str:
    found: str = (one.get("impersonation") or {}).get("username", "")
    return found


def _template(text: str, where: str) -> Template:
    try:
        return Template(text)
    except (ValueError, RecursionError) as error:
        raise StageError(f"{where}: {error}") from error


def _text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


def changed_finalizers(current: Sequence[str], change: Object) -> list[str]:
    kept: list[str] = [] if change.get("empty") else list(current)
    removed = {one.get("value") for one in change.get("remove") or ()}
    kept = [one for one in kept if one not in removed]
    added = [one["value"] for one in change.get("add") or () if one.get("value")]
    return kept + [one for one in added if one not in kept]
