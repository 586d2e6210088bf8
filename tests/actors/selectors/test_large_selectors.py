"""Selectors with hundreds of requirements match like short ones; the cost of an object depends on its labels only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from rewound.actors.errors import BadRequest
from rewound.actors.selectors import FieldSelector, LabelSelector, matcher
from rewound.actors.selectors import fields as fields_module
from rewound.actors.selectors import labels as labels_module
from rewound.actors.selectors.facts import pack_facts
from rewound.actors.selectors.matcher import large_matcher
from tests.cases import cases

FORMS = ("{0}={1}", "{0}!={1}", "{0} in ({2})", "{0} notin ({2})", "{0}", "!{0}", "{0}>4", "{0}<7")
KEYS, VALUES = ("a", "b", "c"), ("", "x", "y", "3", "7")


def requirements(choose: random.Random) -> Iterator[str]:
    for _ in range(choose.randint(0, 4)):
        key, values = choose.choice(KEYS), choose.sample(VALUES, choose.randint(1, 3))
        form = choose.choice(
            ("{0}={1}", "{0}!={1}", "{0} in ({2})", "{0} notin ({2})", "{0}", "!{0}", "{0}>4", "{0}<7")
        )
        yield form.format(key, values[0], ",".join(values))


@pytest.mark.parametrize("seed", range(3))
def test_merged_requirements_decide_like_each_of_them(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(500):
        labels = LabelSelector.parse(",".join(requirements(choose)))
        terms = [
            f"{choose.choice('fg')}{choose.choice(('=', '!='))}{choose.choice(VALUES)}" for _ in range(2)
        ]
        fields = FieldSelector.parse(",".join(terms[: choose.randint(0, 2)]))
        match = large_matcher(labels.requirements, fields.requirements)
        for _ in range(10):
            has = {key: choose.choice(VALUES) for key in KEYS if choose.random() < 0.7}
            of = {field: choose.choice(VALUES) for field in "fg"}
            assert match(pack_facts(has, of, "uid", ())) is (labels.matches(has) and fields.matches(of))


class CountedBytes(bytes):
    """Facts that count the searches in them."""

    searches = 0

    def find(self, *arguments: Any) -> int:
        CountedBytes.searches += 1
        return super().find(*arguments)


@cases(
    "text",
    [
        ",".join(f"!a{number}" for number in range(1000)),
        ",".join(f"a{number}!=b" for number in range(1000)),
        ",".join(f"a{number}=b" for number in range(1000)),
        ",".join(f"a notin (b{number},c{number})" for number in range(500)),
    ],
)
def test_thousand_requirements_are_not_a_thousand_searches(text: str) -> None:
    match = matcher(LabelSelector.parse(text), None)
    assert match is not None
    CountedBytes.searches = 0
    match(CountedBytes(pack_facts({"app": "web"}, {"metadata.name": "n"}, "uid", ())))
    assert CountedBytes.searches <= 1


@cases("text", ["a=b,a=c", "a in (b,c),a notin (b,c)", "a,!a", "a in (b,c),a=d"])
def test_requirements_that_exclude_each_other_match_nothing(text: str) -> None:
    match = large_matcher(LabelSelector.parse(text).requirements, ())
    for value in ("b", "c", "d"):
        assert not match(pack_facts({"a": value}, {}, "uid", ()))


def test_label_selector_with_too_many_requirements_is_refused() -> None:
    most = [f"a{number}" for number in range(labels_module.MAX_TERMS)]
    LabelSelector.parse(",".join(most))
    with pytest.raises(BadRequest, match="a label selector may have at most 3000 requirements"):
        LabelSelector.parse(",".join([*most, "b"]))


def test_label_selector_with_too_many_values_is_refused() -> None:
    most = [f"a{number}" for number in range(labels_module.MAX_VALUES)]
    match = matcher(LabelSelector.parse(f"x in ({','.join(most)})"), None)
    assert match is not None
    assert match(pack_facts({"x": most[-1]}, {}, "uid", ()))
    assert not match(pack_facts({"x": "a"}, {}, "uid", ()))
    with pytest.raises(BadRequest, match="a label selector may have at most 50000 values"):
        LabelSelector.parse(f"x in ({','.join([*most, 'b'])})")


def test_field_selector_with_too_many_terms_is_refused() -> None:
    most = [f"metadata.name!=a{number}" for number in range(fields_module.MAX_TERMS)]
    FieldSelector.parse(",".join(most))
    with pytest.raises(BadRequest, match="a field selector may have at most 3000 requirements"):
        FieldSelector.parse(",".join([*most, "metadata.name!=b"]))
