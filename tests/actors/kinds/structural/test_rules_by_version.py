"""CEL rules and schemas of custom kinds in later versions: messages, reasons, paths, values that stay as they were."""

from __future__ import annotations

from functools import partial
from typing import Any

from rewound.actors.kinds.structural.compile import Compiled, compile_schema
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.structural.rules import field_path
from rewound.actors.kinds.structural.schema_node import parse_schema, rules_in
from rewound.actors.kinds.validation import collect_with
from rewound.actors.names import CLUSTER, NAMES
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.structural.schemas import (
    API_VERSION,
    KIND,
    TEXT,
    WHOLE,
    errors_of,
    list_of,
    problems,
    record,
)
from tests.cases import cases


def compiled_in(version: str, schema: dict[str, Any]) -> Compiled:
    features = choose_release(version).features
    names = NAMES["cluster"]
    return compile_schema(schema, api_version=API_VERSION, kind=KIND, names=names, features=features)


def with_rule(schema: dict[str, Any], **rule: Any) -> dict[str, Any]:
    return {**schema, "x-cluster-validations": [rule]}


SPEC = record(a=WHOLE, b=WHOLE)


def new(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


def test_message_expression_reason_and_field_path() -> None:
    rule = {
        "rule": "self.a < self.b",
        "message": "unused",
        "messageExpression": "'a is not below ' + string(self.b)",
        "reason": "FieldValueForbidden",
        "fieldPath": ".a",
    }
    kind = compiled_in("1.36", record(spec=with_rule(SPEC, **rule)))
    assert problems(kind, new(a=2, b=1)) == ["spec.a: Forbidden: a is not below 1"]


@cases(
    ("expression", "shown"),
    [
        ("'a' + 'b'", "ab"),
        ("'line' + '\\n' + 'break'", "written"),
        ("'  '", "written"),
        ("string(1 / (self.a - self.a))", "written"),
    ],
)
def test_message_that_an_expression_cannot_give_is_the_written_one(expression: str, shown: str) -> None:
    rule = {"rule": "self.a < 0", "message": "written", "messageExpression": expression}
    kind = compiled_in("1.36", record(spec=with_rule(SPEC, **rule)))
    assert problems(kind, new(a=2)) == [f"spec: Invalid value: {shown}"]


@cases(
    ("version", "schema", "value", "shown"),
    [
        ("1.34", WHOLE, 4, 'Invalid value: "integer": no'),
        ("1.35", WHOLE, 4, "Invalid value: 4: no"),
        ("1.35", TEXT, "x", 'Invalid value: "x": no'),
        ("1.34", record(), {}, 'Invalid value: "object": no'),
        ("1.35", record(), {}, "Invalid value: no"),
    ],
)
def test_errors_of_rules_show_scalars_since_1_35(
    version: str, schema: dict[str, Any], value: Any, shown: str
) -> None:
    kind = compiled_in(version, record(spec=with_rule(schema, rule="1 == 2", message="no")))
    assert problems(kind, {"metadata": {"name": "x"}, "spec": value}) == [f"spec: {shown}"]


def test_definition_with_a_wrong_message_reason_or_path_is_refused() -> None:
    rule = {"rule": "true", "messageExpression": "1", "reason": "Whatever", "fieldPath": ".c"}
    found = errors_of(record(spec=with_rule(SPEC, **rule)))
    at = "s.properties[spec].x-cluster-validations[0]"
    assert found[0].startswith(f'{at}.reason: Unsupported value: "Whatever": supported values: ')
    assert found[1:] == [f'{at}.fieldPath: Invalid value: ".c": must be a valid path']
    rule = {"rule": "true", "messageExpression": "1"}
    (only,) = errors_of(record(spec=with_rule(SPEC, **rule)))
    assert only.endswith("messageExpression must evaluate to a string")


@cases(
    ("text", "path"),
    [
        (".a", "a"),
        (".m.key", "m[key]"),
        (".m['with space']", "m[with space]"),
        ("['a']", "a"),
        (".a.b", None),
        ("a", None),
        (".", None),
        (".missing", None),
        ("['a", None),
        (".m['\\q']", None),
        (".m['\\n']", "m[\n]"),
    ],
)
def test_paths_of_fields_follow_the_schema(text: str, path: str | None) -> None:
    schema = record(a=WHOLE, m={"type": "object", "additionalProperties": TEXT})
    assert field_path(parse_schema(schema, CLUSTER), text) == path


LIMITED = {"type": "integer", "maximum": 10}
KEYED = list_of(
    {**record(k=TEXT, size=LIMITED), "required": ["k"]},
    **{"x-cluster-list-type": "map", "x-cluster-list-map-keys": ["k"]},
)


@cases(
    ("schema", "old", "spec", "wrong"),
    [
        (record(size=LIMITED, text=TEXT), {"size": 50}, {"size": 50, "text": "x"}, False),
        (record(size=LIMITED, text=TEXT), {"size": 50}, {"size": 51}, True),
        (record(all=list_of(LIMITED)), {"all": [50]}, {"all": [50]}, False),
        (record(all=list_of(LIMITED)), {"all": [50]}, {"all": [50, 1]}, True),
        (
            record(all=KEYED),
            {"all": [{"k": "a", "size": 50}]},
            {"all": [{"k": "b"}, {"k": "a", "size": 50}]},
            False,
        ),
        (record(all=KEYED), {"all": [{"k": "a", "size": 50}]}, {"all": [{"k": "b", "size": 50}]}, True),
    ],
)
def test_value_that_an_update_keeps_is_not_refused_since_1_30(
    schema: dict[str, Any], old: Any, spec: Any, wrong: bool
) -> None:
    root = record(spec=schema)
    assert bool(problems(compiled_in("1.36", root), new(**spec), new(**old))) is wrong
    assert problems(compiled_in("1.29", root), new(**spec), new(**old))


def test_rule_about_a_value_that_an_update_keeps_does_not_refuse_it() -> None:
    spec = record(a=with_rule(WHOLE, rule="self < 3"), b=with_rule(WHOLE, rule="self > oldSelf"))
    kind = compiled_in("1.36", record(spec=spec))
    assert problems(kind, new(a=5), new(a=5)) == []
    assert problems(kind, new(a=6), new(a=5)) == ["spec.a: Invalid value: 6: failed rule: self < 3"]
    assert problems(kind, new(b=5), new(b=5)) == ["spec.b: Invalid value: 5: failed rule: self > oldSelf"]


@cases(
    ("version", "field"),
    [
        ("1.27", "status.size"),
        ("1.28", "size"),
        ("1.30", "size"),
        ("1.31", "status.size"),
    ],
)
def test_errors_about_a_status_name_its_fields(version: str, field: str) -> None:
    kind = compiled_in(version, record(status=record(size=WHOLE)))
    kind.load()
    from rewound.actors.kinds.validation import collect

    wrong = {"metadata": {"name": "x"}, "status": {"size": "x"}}
    found = collect(lambda errors: kind.validate(errors, wrong, None, of_status=True))
    assert [one.field for one in found] == [field]


def test_a_rule_may_take_old_self_as_an_optional_value() -> None:
    rule = {
        "rule": "!oldSelf.hasValue() || self >= oldSelf.value()",
        "optionalOldSelf": True,
        "message": "never down",
    }
    kind = compiled_in("1.36", record(spec=record(a=with_rule(WHOLE, **rule))))
    assert problems(kind, new(a=3)) == []
    assert problems(kind, new(a=5), new(a=3)) == []
    assert problems(kind, new(a=2), new(a=3)) == ["spec.a: Invalid value: 2: never down"]


def refused(version: str, schema: dict[str, Any], *stored: dict[str, Any]) -> list[str]:
    features = choose_release(version).features
    rules = rules_in([parse_schema(one, CLUSTER) for one in stored])
    work = partial(
        collect_with, features, check_schema, "schema", schema, names=CLUSTER, stored=lambda: rules
    )
    found = run_limited(work, seconds=60)
    return [f"{error.field}: {error.message}" for error in found]


def test_optional_old_self_needs_old_self() -> None:
    (found,) = refused("1.36", record(a=with_rule(WHOLE, rule="self > 1", optionalOldSelf=False)))
    assert found.endswith(
        "[0].optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"
    )


def test_stored_rules_may_use_what_new_ones_may_not() -> None:
    schema = record(a=with_rule(WHOLE, rule="optional.of(self).hasValue()"))
    (found,) = refused("1.28", schema)
    assert "undeclared reference to 'optional'" in found
    assert refused("1.28", schema, schema) == []
    assert refused("1.29", schema) == []


def test_errors_in_rules_show_them_as_each_version_does() -> None:
    schema = record(a=with_rule(WHOLE, rule="self && self < 1"))
    (first,) = refused("1.25", schema)
    assert 'apiextensions.ValidationRule{Rule:"self && self < 1", Message:""}' in first
    (later,) = refused("1.30", schema)
    assert 'FieldPath:"", OptionalOldSelf:(*bool)(nil)}: compilation failed' in later
    (newest,) = refused("1.36", schema)
    assert '{"Rule":"self \\u0026\\u0026 self \\u003c 1","Message":""' in newest


@cases(
    ("version", "wrong"),
    [("1.28", "but isn't: error parsing regexp: invalid or unsupported Perl syntax: `(?<`"), ("1.29", "")],
)
def test_patterns_with_named_groups(version: str, wrong: str) -> None:
    schema = record(spec={**TEXT, "pattern": "^(?<n>a)(?<n>b)$"})
    found = collect_with(choose_release(version).features, check_schema, "s", schema, names=CLUSTER)
    assert [one.message.partition("expression, ")[2] for one in found] == ([wrong] if wrong else [])
    made = compiled_in(version, schema)  # a stored definition goes on
    assert problems(made, {"spec": "ab"}) == []
    assert problems(made, {"spec": "ac"}) != []
