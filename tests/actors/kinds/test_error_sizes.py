"""Errors about an invalid body stay short, however large it is: values are cut, and so is the number of errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.errors import Cause, Invalid
from rewound.actors.golang.format import as_json, format_value
from rewound.actors.golang.quoting import LONGEST, quoted, quoted_start
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import FieldErrors, collect, collect_with, invalid, not_supported
from rewound.actors.names import CLUSTER
from rewound.actors.versions.features import JSON_IN_TEXTS
from rewound.gateway.pipeline.errors import failure_of
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.operations import operations
from tests.cases import cases

CATALOG = built_in(CLUSTER)
DEFINITIONS = Definitions(CATALOG)
LONG = "x" * 100_000
LARGEST_RESPONSE = 64 * 1024


def response_to(error: Invalid) -> bytes:
    failure = failure_of(error)
    assert failure is not None
    return orjson.dumps(failure.document(), option=orjson.OPT_INDENT_2)


@cases(
    "value",
    [
        LONG,
        [LONG],
        ["x"] * 100_000,
        [{"a": "x"}] * 100_000,
        {"a": LONG},
        {f"k{index}": index for index in range(100_000)},
        {LONG: 1},
        {"matchLabels": {f"k{index}": "v" for index in range(10_000)}},
        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * 10_000}]},
        {"a": [[[[["x"] * 1000] * 100]] * 100]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_show_the_start_of_a_large_value(value: Any) -> None:
    text = format_value(value)
    assert len(text) < 3 * LONGEST
    assert "..." in text


@cases("value", [["x"] * 100_000, ["x" * 300] * 1000, [*(["x"] * 40), {"a": "x"}, LONG, *(["x"] * 10_000)]])
def test_json_shows_the_start_of_a_large_list(value: list[Any]) -> None:
    text = as_json(value)
    assert len(text) < 3 * LONGEST
    shown = text[: text.index("...")].rstrip(",")
    assert orjson.dumps(value).startswith(shown.rstrip('"').encode())
    assert len(shown) >= LONGEST


@cases("value", [["a"] * 50, ["a", 1] * 20, [{"a": ["b"] * 40}] * 4, ["<"] * 17, [[]] * 20])
def test_json_of_short_values_is_whole(value: list[Any]) -> None:
    assert as_json(value) == orjson.dumps(value).decode().replace("<", r"\u003c")


@cases(
    "features",
    [frozenset(), frozenset((JSON_IN_TEXTS,))],
    ids=lambda features: "later" if features else "1.25",
)
def test_a_thousand_messages_that_show_one_list_cost_little(features: frozenset[str]) -> None:
    """One request with them once blocked all others for half a second."""
    quota = next(one for one in CATALOG.definitions if one.plural == "resourcequotas")
    sent = {"metadata": {"name": "a"}, "spec": {"scopes": [""] * 1000}, "status": {}}
    rules = quota.strategy.validate_create
    found = []
    calls = operations(lambda: found.extend(collect_with(features, rules, sent)))
    assert len(found) == 1000
    assert ('["",' in found[0].message) == bool(features)
    assert calls < 100 * len(found), calls / len(found)


def test_deeply_nested_values_are_cut() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert "..." in format_value(value)


@cases("value", [["a"] * 50, {"a": "b", "c": [1, {"d": None}]}, [{"a": 1.5}, True], {}, []])
def test_short_values_are_shown_whole(value: Any) -> None:
    expected = orjson.dumps(value).decode()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        expected = "[]string{" + ", ".join(quoted(one) for one in value) + "}"
    assert format_value(value) == expected


def test_a_cut_text_says_how_long_it_was() -> None:
    assert quoted_start(LONG) == f'"{"x" * LONGEST}"... (100000 characters)'
    assert f"({len(LONG)} characters)" in not_supported("a", LONG, ("b",)).message


def test_paths_and_details_are_cut() -> None:
    def rules(errors: FieldErrors) -> None:
        errors.add(invalid(LONG, "a", LONG))

    (error,) = collect(rules)
    assert len(error.field) < 2000
    assert len(error.message) < 15_000


@cases("text", ["x", "\x00", '"', "\u2028", "\U0001f600"])
@cases("causes", [1, 3, 99, 5000])
def test_a_response_to_invalid_bodies_is_at_most_64_KiB(text: str, causes: int) -> None:
    listed = [Cause("FieldValueInvalid", text * 12_000, f"{text}{index}" * 100) for index in range(causes)]
    error = Invalid("apps", "Deployment", text * 100_000, listed)
    assert error.causes
    assert len(response_to(error)) <= LARGEST_RESPONSE


def test_causes_that_are_left_out_are_counted() -> None:
    error = Invalid("", "Pod", "a", [Cause("x", f"{index}" + "m" * 1000, "f") for index in range(90)])
    assert error.message.endswith(f"and {90 - len(error.causes)} more]")


@pytest.mark.parametrize(
    ("plural", "document"),
    [
        ("nodes", {"spec": {"podCIDRs": [f"c{index}" for index in range(3000)]}}),
        ("resourcequotas", {"spec": {"scopes": [f"s{index}" for index in range(3000)]}}),
        ("services", {"spec": {"ipFamilies": [f"f{index}" for index in range(3000)]}}),
        ("configmaps", {"metadata": {"ownerReferences": [{"controller": True, "name": LONG[:1000]}] * 1000}}),
        ("configmaps", {"metadata": {"labels": {LONG: LONG}}}),
        ("configmaps", {"metadata": {"name": LONG}}),
        ("configmaps", {"data": {f"{LONG}{index}/": "" for index in range(20)}}),
        ("pods", {"spec": {"containers": [{}] * 3000}}),
    ],
)
def test_errors_about_large_bodies_are_short(plural: str, document: dict[str, Any]) -> None:
    document["metadata"] = {"name": "a", **document.get("metadata", {})}
    causes = DEFINITIONS.create_causes(plural, document)
    assert causes
    assert sum(len(field) + len(message) for field, message in causes) <= LARGEST_RESPONSE
