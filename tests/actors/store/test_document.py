"""Objects as stored bytes: the order of metadata, and how the version is filled in."""

from __future__ import annotations

from itertools import permutations

import orjson
import pytest

from rewound.actors.store import document
from rewound.actors.store.document import at_version, encode, encode_unversioned

METADATA = {
    "name": "a",
    "namespace": "default",
    "uid": "u",
    "creationTimestamp": "2020-01-01T00:00:00Z",
    "labels": {"resourceVersion": ""},
    "managedFields": [],
}


def test_metadata_is_stored_in_its_usual_order_whatever_its_own_is() -> None:
    usual = encode({"metadata": METADATA, "data": {}}, 7)
    names = list(orjson.loads(usual)["metadata"])
    assert names == [*list(METADATA)[:3], "resourceVersion", *list(METADATA)[3:]]
    for names in permutations(METADATA, len(METADATA)):
        stored = {"data": {}, "metadata": {name: METADATA[name] for name in names}}
        assert encode(stored, 7) == usual
        assert at_version(encode_unversioned(stored), 7) == usual
    assert len(document._templates) <= document.MAX_TEMPLATES


def test_metadata_without_a_place_in_the_order_is_not_stored() -> None:
    for _ in range(2):
        stored = encode({"metadata": {"name": "a", "unknown": "x"}}, 7)
        assert stored == b'{"metadata":{"name":"a","resourceVersion":"7"}}'


def test_dry_run_create_has_the_version_that_its_client_sent() -> None:
    metadata = {"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"}
    for sent in ({}, {"resourceVersion": ""}, {"resourceVersion": "5"}):
        encoded = encode({"metadata": {**metadata, **sent}}, 0)
        assert orjson.loads(encoded)["metadata"] == {**metadata, **sent}


def test_version_is_filled_into_metadata_only() -> None:
    unversioned = encode_unversioned({"metadata": {"name": '"resourceVersion":""', "uid": "u"}, "data": {}})
    assert orjson.loads(at_version(unversioned, 12))["metadata"]["resourceVersion"] == "12"
    with pytest.raises(ValueError, match="no empty version"):
        at_version(b"{}", 12)
