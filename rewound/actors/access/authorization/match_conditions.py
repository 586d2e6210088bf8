"""Match conditions of authorization webhooks: CEL expressions over `request`, the spec of a SubjectAccessReview.

A webhook with conditions is asked only if all are true. They are compiled when the configuration is read, and evaluated
for every request before the cache of the webhook. An expression that a request makes long ends at its cost limit;
the evaluation moves to a worker thread as soon as it would hold the event loop for more than part of a millisecond.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from rewound.actors.access.authorize import (
    Attributes,
    Later,
    field_selector_attributes,
    join_errors,
    label_selector_attributes,
)
from rewound.actors.cel.checker import check
from rewound.actors.cel.json_data import JsonMap
from rewound.actors.cel.language import language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.program import Program, compile_program
from rewound.actors.cel.syntax import Problems
from rewound.actors.cel.types import BOOL, NULL, STRING, Environment, MessageType, Type, list_of, map_of
from rewound.actors.cel.values import CannotCompile
from rewound.actors.kinds.validation import (
    FieldErrors,
    duplicate,
    invalid,
    required,
    too_many,
    undecided,
)
from rewound.actors.names import Names
from rewound.actors.runtime.budget import ThreadBudget
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.time_limit import NeedsThread, TookTooLong, need_thread, run_limited
from rewound.actors.versions.features import SELECTORS

MOST: Final = 64
COST_IN_LOOP: Final = (
    10_000  # of all conditions of a request together, a millisecond; then they move to a thread
)
# There, as much as ten conditions at their cost limits take. Who creates access reviews chooses groups, and so costs.
SECONDS_IN_THREAD: Final = 1.0
_THREADS: Final = trio.CapacityLimiter(2)  # more would only share the processor that requests need


class Matched(NamedTuple):
    """The result of all conditions for a request; neither of both if all are true."""

    excluded: bool  # one is false
    errors: str = ""  # why some could not be evaluated, in the words of Kubernetes


class MatchConditions:
    """The conditions of one webhook, of which there is at least one. Equal if their texts are."""

    def __init__(self, compiled: tuple[tuple[str, Program], ...]) -> None:
        self._compiled = compiled
        # Selectors are parsed only for conditions that name them.
        self._field_selector = any("fieldSelector" in text for text in self.texts)
        self._label_selector = any("labelSelector" in text for text in self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatchConditions) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for text, _ in self._compiled)

    def match(self, attributes: Attributes) -> Matched | Awaitable[Matched]:
        """Evaluate until one condition is false. Awaitable if it takes longer."""
        variables = (_request(attributes, self._field_selector, self._label_selector),)
        try:
            return self._evaluate(variables)
        except NeedsThread:
            evaluate = partial(_evaluate_limited, self._evaluate, variables)
            return Later(partial(run_in_thread, evaluate, limiter=_THREADS))

    def _evaluate(self, variables: tuple[Any, ...]) -> Matched:
        errors: list[str] = []
        spent = 0
        for text, program in self._compiled:
            try:
                result, cost = program.evaluate(variables, ThreadBudget())
                spent += cost
                if spent > COST_IN_LOOP:
                    need_thread()
            except TookTooLong:
                return Matched(False, join_errors([*errors, _failure(text, "operation interrupted")]))
            if result is False:
                return Matched(True, join_errors(errors))
            if result is not True:
                errors.append(_failure(text, result))
        return Matched(False, join_errors(errors)) if errors else _ALL_TRUE


_ALL_TRUE: Final = Matched(False)


def _failure(text: str, why: object) -> str:
    return f"cel evaluation error: expression '{text}' resulted in error: {why}"


def _evaluate_limited(evaluate: Callable[[tuple[Any, ...]], Matched], variables: tuple[Any, ...]) -> Matched:
    return run_limited(evaluate, variables, seconds=SECONDS_IN_THREAD)


def environment_of(names: Names, features: frozenset[str]) -> Environment:
    """Return what conditions may name on a server with these features; the types are those of Kubernetes."""
    texts = list_of(STRING)
    requirements = list_of(Type("kubernetes.SelectorRequirement"))
    resource = dict.fromkeys(
        ("namespace", "verb", "group", "version", "resource", "subresource", "name"), STRING
    )
    if SELECTORS in features:
        resource |= {
            "fieldSelector": Type("kubernetes.FieldSelectorAttributes"),
            "labelSelector": Type("kubernetes.LabelSelectorAttributes"),
        }
    declared: dict[str, dict[str, Type]] = {
        "SubjectAccessReviewSpec": {
            "resourceAttributes": Type("kubernetes.ResourceAttributes"),
            "nonResourceAttributes": Type("kubernetes.NonResourceAttributes"),
            "user": STRING,
            "groups": texts,
            "extra": map_of(STRING, texts),
            "uid": STRING,
        },
        "ResourceAttributes": resource,
        "NonResourceAttributes": {"path": STRING, "verb": STRING},
        "FieldSelectorAttributes": {"rawSelector": STRING, "requirements": requirements},
        "LabelSelectorAttributes": {"rawSelector": STRING, "requirements": requirements},
        "SelectorRequirement": {"key": STRING, "operator": STRING, "values": texts},
    }
    messages = {f"kubernetes.{name}": MessageType(f"kubernetes.{name}", of) for name, of in declared.items()}
    variables = {"request": Type("kubernetes.SubjectAccessReviewSpec")}
    return Environment(variables, messages, language_of(names, features, stored=True))


def compile_conditions(
    errors: FieldErrors, path: str, texts: Sequence[str], environment: Environment
) -> MatchConditions | None:
    """Compile the conditions of a webhook; None if there are none, or none that compiles."""
    if len(texts) > MOST:
        errors.add(too_many(path, len(texts), MOST))
        return None
    compiled: dict[str, Program] = {}
    seen: set[str] = set()
    for index, text in enumerate(texts):
        where = f"{path}[{index}].expression"
        if not text.strip():
            errors.add(required(where))
        elif text in seen:
            errors.add(duplicate(where, text))
        elif (program := _compile(errors, where, text, environment)) is not None:
            compiled[text] = program
        seen.add(text)
    return MatchConditions(tuple(compiled.items())) if compiled else None


def _compile(errors: FieldErrors, where: str, text: str, environment: Environment) -> Program | None:
    parsed = parse(text, environment.language)
    checked = parsed if isinstance(parsed, Problems) else check(parsed, environment)
    if isinstance(checked, Problems):
        errors.add(invalid(where, text, f"compilation failed: {checked}"))
        return None
    if checked.result != BOOL:
        found = "null_type" if checked.result == NULL else checked.result
        errors.add(invalid(where, text, f"must evaluate to bool but got {found}"))
        return None
    try:
        return compile_program(checked.expression, checked, tuple(environment.variables))
    except CannotCompile as error:
        errors.add(undecided(where, f"program instantiation failed: {error}"))
        return None


def _request(attributes: Attributes, with_fields: bool, with_labels: bool) -> JsonMap:
    user = attributes.user
    request: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {name: list(values) for name, values in user.extra},
    }
    if attributes.is_resource:
        resource: dict[str, Any] = {
            "namespace": attributes.namespace,
            "verb": attributes.verb,
            "group": attributes.group,
            "version": attributes.version,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
        }
        if with_fields and (found := field_selector_attributes(attributes)):
            resource["fieldSelector"] = _selector(found)
        if with_labels and (found := label_selector_attributes(attributes)):
            resource["labelSelector"] = _selector(found)
        request["resourceAttributes"] = resource
    else:
        request["nonResourceAttributes"] = {"verb": attributes.verb, "path": attributes.path}
    return JsonMap(request)


def _selector(requirements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"requirements": [{"values": [], **one} for one in requirements]}
