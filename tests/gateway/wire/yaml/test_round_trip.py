"""Every value, written as YAML and read again, is unchanged."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from rewound.gateway.wire.yaml import Loaded, dump, load
from tests.examples import examples

# Characters with a meaning in YAML, which random text would rarely have.
TRICKY = " \t\n\r-:#?|>&*!%@`'\"{}[],.~=<0123456789eExXoOyYnN_+aZ\x85\xa0\u2028\ufeff\x00\x7fé\U0001f600"
WORDS = ["- a", "? b", ": c", "--- ", "...", "%TAG", "<<", "=", "null", "08", "1e3", "12:30:45", "2020-01-01"]

texts = some.text(max_size=40) | some.text(TRICKY, max_size=120) | some.sampled_from(WORDS)
scalars = (
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**64 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@examples(80)
@given(values)
def test_values_survive_writing_and_reading(value: Any) -> None:
    assert load(dump(value)) == Loaded(value, ())


@examples(80)
@given(some.dictionaries(texts, some.text(TRICKY + "word ", max_size=300), max_size=3))
def test_long_texts_survive_writing_and_reading(value: dict[str, str]) -> None:
    assert load(dump(value)) == Loaded(value, ())


def test_deep_nesting_survives_writing_and_reading() -> None:
    value: Any = "leaf"
    for level in range(190):
        value = [value] if level % 2 else {"k": value}
    assert load(dump(value)).value == value
