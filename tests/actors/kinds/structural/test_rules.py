"""CEL rules: why a definition is refused, and how rules are evaluated on objects."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.rule_timings import COMPILATIONS, EVALUATIONS, RuleDurations
from rewound.actors.kinds.structural.compile import Compiled
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.time_limit import NeedsThread, run_limited
from tests.cases import cases

from .schemas import TEXT, WHOLE, compiled, errors_of, list_of, problems, record

RULES = "x-cluster-validations"
KEYED = {"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["k"]}


def ruled(node: dict[str, Any], *rules: str, message: str = "") -> dict[str, Any]:
    return {**node, RULES: [{"rule": rule, **({"message": message} if message else {})} for rule in rules]}


def kind(node: dict[str, Any]) -> Compiled:
    return compiled(record(spec=node))


@cases(
    ("rule", "wrong"),
    [
        ("", "rule: Required value: rule is not specified"),
        ("self.a", "cel expression must evaluate to a bool"),
        ("self.b > 1", "undefined field 'b'"),
        ("self.a >", "Syntax error: mismatched input '<EOF>'"),
        ("self.a == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
    ],
)
def test_rules_that_are_refused(rule: str, wrong: str) -> None:
    (found,) = errors_of(record(spec=ruled(record(a=WHOLE), rule)))
    assert found.startswith(f"s.properties[spec].{RULES}[0].rule: ")
    assert wrong in found


def test_messages_are_single_lines() -> None:
    schema = record(
        spec={**record(a=WHOLE), RULES: [{"rule": "self.a\n> 1"}, {"rule": "true", "message": " "}]}
    )
    assert errors_of(schema) == [
        f"s.properties[spec].{RULES}[0].message: Required value: message must be specified if rule contains "
        "line breaks",
        f's.properties[spec].{RULES}[1].message: Invalid value: " ": message must be non-empty if specified',
    ]


def test_rules_without_a_bound_are_too_dear() -> None:
    found = errors_of(record(spec=ruled(list_of(list_of(TEXT)), "self.all(x, x.all(y, x.all(z, y == z)))")))
    assert found[0].startswith(
        f"s.properties[spec].{RULES}[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x"
    )
    assert f"{RULES} estimated rule cost total for entire OpenAPIv3 schema exceeds budget" in found[-1]


def test_items_of_plain_lists_have_no_old_value() -> None:
    schema = record(spec=list_of(ruled(WHOLE, "self == oldSelf"), maxItems=3))
    assert errors_of(schema) == [
        f's.properties[spec].items.{RULES}[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the '
        "uncorrelatable portion of the schema within s.properties[spec]"
    ]


def test_nodes_without_a_type_have_no_rules() -> None:
    node = {"x-cluster-preserve-unknown-fields": True}
    assert errors_of(record(spec=ruled(node, "true"))) == [
        f"s.properties[spec].{RULES}: Internal error: internal error: failed to construct type information for "
        f"{RULES} rules: unable to convert structural schema to CEL declarations"
    ]


def test_errors_in_a_schema_leave_its_rules_unchecked() -> None:
    broken = {**record(a={"type": "foo"}), RULES: [{"rule": "self.nope"}]}
    assert [one.partition(":")[0] for one in errors_of(record(spec=broken))] == [
        "s.properties[spec].properties[a].type"
    ]


def test_defaults_must_follow_the_rules() -> None:
    node = ruled({**WHOLE, "default": 0}, "self > 0")
    assert errors_of(record(spec=node)) == [
        's.properties[spec].default: Invalid value: "integer": failed rule: self > 0'
    ]


def test_failed_rules() -> None:
    made = kind(ruled(record(a=WHOLE), "self.a > 1", "self.a < 9", message="a is small"))
    assert problems(made, {"spec": {"a": 5}}) == []
    assert problems(made, {"spec": {"a": 1}}) == ['spec: Invalid value: "object": a is small']


def test_compilations_and_evaluations_are_timed() -> None:
    made = kind(ruled(record(a=ruled(WHOLE, "self < 9")), "self.a > 1"))
    before = counted(COMPILATIONS), counted(EVALUATIONS)
    assert problems(made, {"spec": {"a": 5}}) == []
    assert problems(made, {"spec": {"a": 1}}) != []
    assert (counted(COMPILATIONS) - before[0], counted(EVALUATIONS) - before[1]) == (2, 2)


def counted(durations: RuleDurations) -> int:
    [(_, counts)] = durations.read().values()
    return sum(counts)


def test_a_rule_that_cannot_be_evaluated_fails() -> None:
    made = kind(ruled(record(a=WHOLE, b=WHOLE), "self.a / self.b > 0"))
    assert problems(made, {"spec": {"a": 1, "b": 0}}) == [
        'spec: Invalid value: "object": division by zero evaluating rule: self.a / self.b > 0'
    ]
    assert problems(made, {"spec": {"a": 1.0, "b": 1}}) == [
        'spec: Invalid value: "object": invalid data, expected int, got float64 evaluating rule: self.a / self.b > 0'
    ]


def test_rules_at_the_root_see_type_and_names() -> None:
    made = compiled(ruled(record(), "self.kind == 'Thing' && self.metadata.name.startsWith('x')"))
    assert problems(made, {"metadata": {"name": "x"}}) == []
    (found,) = problems(made, {"metadata": {"name": "y"}})
    assert found.startswith('<nil>: Invalid value: "object": failed rule: ')


def test_values_of_the_wrong_type_stop_all_rules() -> None:
    made = kind(record(a=ruled(WHOLE, "self > 5"), b=TEXT))
    assert problems(made, {"spec": {"a": 1, "b": 2}}) == [
        'spec.b: Invalid value: "integer": spec.b in body must be of type string: "integer"',
        '<nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; correct '
        "the existing errors to complete validation",
    ]


def test_transition_rules_compare_with_the_old_value() -> None:
    made = kind(record(a=ruled(WHOLE, "self >= oldSelf")))
    assert problems(made, {"spec": {"a": 1}}) == []
    assert problems(made, {"spec": {"a": 1}}, {"spec": {}}) == []
    assert problems(made, {"spec": {"a": 1}}, {"spec": {"a": 2}}) == [
        'spec.a: Invalid value: "integer": failed rule: self >= oldSelf'
    ]


def test_items_of_keyed_lists_are_found_by_their_keys() -> None:
    item = {**record(k=TEXT, v=ruled(WHOLE, "self >= oldSelf")), "required": ["k"]}
    made = kind(record(l=list_of(item, maxItems=9, **KEYED)))
    old = {"spec": {"l": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}}
    assert problems(made, {"spec": {"l": [{"k": "b", "v": 2}, {"k": "c", "v": 0}]}}, old) == []
    assert problems(made, {"spec": {"l": [{"k": "b", "v": 0}]}}, old) == [
        'spec.l[0].v: Invalid value: "integer": failed rule: self >= oldSelf'
    ]


def test_dear_rules_need_a_thread_and_end_at_the_budget() -> None:
    rule = "self.l.all(x, self.l.all(y, self.l.all(z, x + y > z)))"
    made = kind(ruled(record(l=list_of(WHOLE, maxItems=100)), rule))
    few, many = {"spec": {"l": [1, 1]}}, {"spec": {"l": [1] * 100}}
    assert problems(made, few) == []
    with pytest.raises(NeedsThread):
        problems(made, many)
    found = run_limited(lambda: collect(lambda errors: made.validate(errors, many)), seconds=60)
    assert "actual cost limit exceeded" in found[0].message and len(found) == 1


def test_definitions_with_many_rules_need_a_thread() -> None:
    schema = record(spec=ruled(WHOLE, *[f"self > {number}" for number in range(100)]))
    with pytest.raises(NeedsThread):
        collect(check_schema, "s", schema, names=CLUSTER)
    assert run_limited(errors_of, schema, seconds=60) == []
