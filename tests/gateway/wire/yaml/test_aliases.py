"""Anchors, aliases and merge keys."""

import pytest

from rewound.gateway.wire.yaml import YamlError, load
from tests.cases import cases


def test_alias_repeats_the_anchored_value() -> None:
    assert load(b"a: &x [1, {b: c}]\nd: *x\n").value == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}


def test_each_alias_is_a_separate_copy() -> None:
    value = load(b"a: &x {b: [1]}\nc: *x\nd: *x\n").value
    value["c"]["b"].append(2)
    assert value == {"a": {"b": [1]}, "c": {"b": [1, 2]}, "d": {"b": [1]}}


def test_anchor_may_be_redefined() -> None:
    assert load(b"[&x 1, *x, &x 2, *x]").value == [1, 1, 2, 2]


def test_alias_may_be_a_key() -> None:
    assert load(b"a: &x name\n*x : 1\n").value == {"a": "name", "name": 1}


def test_merge_key_merges_one_map() -> None:
    assert load(b"a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n").value["b"] == {"p": 1, "q": 3}


def test_explicit_keys_take_precedence_over_merged_ones() -> None:
    assert load(b"a: &x {p: 1}\nb: {p: 2, <<: *x}\n").value["b"] == {"p": 2}


def test_earlier_merge_source_takes_precedence() -> None:
    raw = b"a: &x {p: 1}\nb: &y {p: 2, q: 2}\nc: {<<: [*x, *y, {r: 3}]}\n"
    assert load(raw).value["c"] == {"p": 1, "q": 2, "r": 3}


def test_merged_map_may_have_merge_keys() -> None:
    raw = b"a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y}\n"
    assert load(raw).value["c"] == {"p": 1, "q": 2}


@cases("raw", [b'"<<": 1', b"!!str <<: 1", b"<<: 1", b"<<: [1]", b"<<: [[]]"])
def test_only_a_plain_merge_key_merges_and_only_maps(raw: bytes) -> None:
    if raw.startswith(b"<<"):
        with pytest.raises(YamlError, match="map merge requires map or sequence of maps as the value"):
            load(raw)
    else:
        assert load(raw).value == {"<<": 1}


def test_unknown_anchor_is_refused() -> None:
    with pytest.raises(YamlError, match="line 1, column 4: unknown anchor 'x' referenced"):
        load(b"a: *x")


@cases("raw", [b"a: &x [*x]", b"&x {a: {b: *x}}", b"a: &x\n  <<: *x\n"])
def test_value_cannot_contain_itself(raw: bytes) -> None:
    with pytest.raises(YamlError, match="anchor 'x' value contains itself"):
        load(raw)
