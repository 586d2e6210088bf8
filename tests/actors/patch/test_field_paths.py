"""Path elements: one spelling for each, readable texts, and which ones from clients are read or refused."""

import pytest

from rewound.actors.patch.managed_fields.field_set import (
    NotFields,
    entry,
    in_order,
    path_text,
    read_fields,
    value,
)
from tests.cases import cases


def test_entry_elements_contain_all_keys():
    assert entry(("containerPort", "protocol"), (53, "TCP")) == 'k:{"containerPort":53,"protocol":"TCP"}'


@cases(
    ("of", "spelled"),
    [("x", 'v:"x"'), ('a"b\n', r'v:"a\"b\n"'), ("ä", 'v:"ä"'), (1, "v:1"), (True, "v:true")],
)
def test_set_elements_are_json(of, spelled):
    assert value(of) == spelled


@cases(
    ("path", "words"),
    [
        (("f:data", "f:k"), ".data.k"),
        (("f:spec", 'k:{"name":"c"}', "f:args"), '.spec[name="c"].args'),
        (("f:ports", 'k:{"port":53,"protocol":"TCP"}'), '.ports[port=53,protocol="TCP"]'),
        (("f:finalizers", 'v:"a/b"'), '.finalizers[="a/b"]'),
        (("f:list", "i:3"), ".list[3]"),
    ],
)
def test_path_text(path, words):
    assert path_text(path) == words


def test_numeric_keys_sort_numerically():
    paths = [("f:b",), ('k:{"port":443}',), ('k:{"port":53}',), ("f:a",), ('v:"x"',), ("i:2",)]
    assert [path_text(path) for path in sorted(paths, key=in_order)] == [
        ".a",
        ".b",
        "[port=53]",
        "[port=443]",
        '[="x"]',
        "[2]",
    ]


def test_field_sorts_before_the_fields_below_it():
    paths = [("f:a", "f:x"), ("f:b",), ("f:a",), ("f:a", "f:x", "f:y"), ("f:c", "f:x")]
    found = [path_text(path) for path in sorted(paths, key=in_order)]
    assert found == [".a", ".b", ".a.x", ".a.x.y", ".c.x"]


def test_order_of_keys_does_not_matter():
    sent = {"f:ports": {'k:{"protocol":"TCP", "port":80}': {".": {}}}}
    assert read_fields(sent) == {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {}}}


def test_unknown_element_kinds_are_dropped():
    assert read_fields({"x:what": {}, "f:a": {}, ".": {}}) == {"f:a": {}}


@cases(
    "sent",
    [
        [],
        {"f:a": 1},
        {"k:": {}},
        {"k:{}": {}},
        {'k:{"a":{}}': {}},
        {"k:[1]": {}},
        {"v:": {}},
        {"i:-1": {}},
        {"i:99999999999": {}},
        {"f:a": {"i:x": {}}},
    ],
)
def test_invalid_fields_v1_is_refused(sent):
    with pytest.raises(NotFields):
        read_fields(sent)
