"""Parsing the query of a request."""

from collections.abc import Callable

import pytest

from rewound.actors.errors import BadRequest
from rewound.gateway.pipeline.parameters import EMPTY, MOST_PARAMETERS, Parameters, parse, parse_leniently
from tests.cases import cases


def test_empty_query_has_no_parameters() -> None:
    assert parse("") is EMPTY
    assert not EMPTY
    assert EMPTY.first("limit") is None
    assert EMPTY.all("dryRun") == []


def test_repeated_parameters_keep_their_order() -> None:
    parameters = parse("dryRun=All&limit=1&dryRun=Foo")
    assert parameters
    assert parameters.all("dryRun") == ["All", "Foo"]
    assert parameters.first("dryRun") == "All"
    assert parameters.values() == {"dryRun": ["All", "Foo"], "limit": ["1"]}


@cases(
    ("query", "values"),
    [
        ("watch", {"watch": [""]}),
        ("watch=", {"watch": [""]}),
        ("a=1&&b=2&", {"a": ["1"], "b": ["2"]}),
        ("a=b=c", {"a": ["b=c"]}),
        ("=v", {"": ["v"]}),
        ("a=x+y", {"a": ["x y"]}),
        ("a=x%2By%20z", {"a": ["x+y z"]}),
        ("label%53elector=a%3Db", {"labelSelector": ["a=b"]}),
        ("a=%E2%82%AC", {"a": ["€"]}),
        ("a=\xe2\x82\xac", {"a": ["€"]}),
        ("a=%ff", {"a": ["\ufffd"]}),
        ("a=%00", {"a": ["\x00"]}),
        ("a=%3B%26", {"a": [";&"]}),
        ("Pretty=1", {"Pretty": ["1"]}),
    ],
)
def test_names_and_values_are_unescaped(query: str, values: dict[str, list[str]]) -> None:
    assert parse(query).values() == values


@cases("query", ["a=%", "a=%4", "a=%zz", "%g1=a", "ok=1&labelSelector=%"])
def test_invalid_escape_is_refused(query: str) -> None:
    with pytest.raises(BadRequest, match="invalid URL escape"):
        parse(query)


def test_bare_semicolon_is_refused() -> None:
    with pytest.raises(BadRequest, match="semicolon"):
        parse("a=1;b=2")


def test_lenient_parsing_leaves_out_malformed_pairs_alone() -> None:
    found = parse_leniently("a=1&b=%&%zz=2&c=3;d=4&a=5&e")
    assert found.values() == {"a": ["1", "5"], "e": [""]}
    assert parse_leniently("b=%") is EMPTY


def test_repeated_query_is_parsed_once_and_refused_every_time() -> None:
    query = "resourceVersion=0&timeoutSeconds=5"
    assert parse(query) is parse(query)
    for _ in range(2):
        with pytest.raises(BadRequest, match="invalid URL escape"):
            parse("labelSelector=%")


def test_long_queries_are_not_cached() -> None:
    query = "labelSelector=" + "a" * 300
    assert parse(query) is not parse(query)
    assert parse(query).values() == parse(query).values()


@cases(
    ("query", "found"),
    [
        ("at=5m&pretty=true&watch", ("5m", "true", True)),
        ("watch=false", (None, None, False)),
        ("%61t=7&watch=0", ("7", None, False)),
        ("at=&pretty=", ("", "", False)),
    ],
)
def test_parameters_of_every_request_are_attributes(
    query: str, found: tuple[str | None, str | None, bool]
) -> None:
    parameters = parse(query)
    assert (parameters.at, parameters.pretty, parameters.watch) == found


@pytest.mark.parametrize("read", [parse, parse_leniently])
def test_query_with_too_many_parameters_is_refused(read: Callable[[str], Parameters]) -> None:
    most = "&".join(["command=a"] * MOST_PARAMETERS)
    assert read(most).all("command") == ["a"] * MOST_PARAMETERS
    with pytest.raises(BadRequest, match="more than 2000 parameters"):
        read(f"{most}&command=a")
