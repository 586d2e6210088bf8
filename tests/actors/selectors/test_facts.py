from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.selectors.facts import (
    field_bytes,
    has_owners,
    label_bytes,
    pack_facts,
    unpack_labels,
    unpack_uids,
)

words = st.dictionaries(st.text(), st.text())
filled = st.dictionaries(st.text(), st.text(min_size=1))


@given(words, filled, st.text(), st.lists(st.text()))
def test_packed_facts_are_unpacked_unchanged(
    labels: dict[str, str], fields: dict[str, str], uid: str, owners: list[str]
) -> None:
    packed = pack_facts(labels, fields, uid, owners)
    assert unpack_labels(packed) == labels
    assert unpack_uids(packed) == (uid, tuple(owners))
    assert all(field_bytes(field, value) in packed for field, value in fields.items())


@given(words, filled, st.text(), st.lists(st.text()))
def test_has_owners_decides_without_unpacking(
    labels: dict[str, str], fields: dict[str, str], uid: str, owners: list[str]
) -> None:
    # A uid is ASCII; a text may end in any UTF-8 continuation byte.
    uids = [f"{owner}-" for owner in owners]
    assert has_owners(pack_facts(labels, fields, uid, uids)) == bool(owners)


def test_empty_field_is_left_out() -> None:
    assert pack_facts({"a": ""}, {"b": ""}, "u", []) == pack_facts({"a": ""}, {}, "u", [])


def test_bytes_equal_those_of_earlier_releases() -> None:
    packed = pack_facts({"app": "web"}, {"metadata.name": "a"}, "u-1", ["u-0"])
    assert packed.hex() == "9493a3617070ffa377656293ad6d657461646174612e6e616d65fea161a3752d3191a3752d30"


def test_items_of_a_later_layout_are_ignored() -> None:
    packed = msgpack.packb([["app", -1, "web"], [], "u-1", "from the future", 7, ["u-0"]])
    assert unpack_labels(packed) == {"app": "web"}
    assert unpack_uids(packed) == ("u-1", ("u-0",))


# A stored text whose length msgpack encodes like one of the marks, or that looks like facts itself.
hostile = st.one_of(
    st.text(),
    st.sampled_from([253, 254, 255, 256, 0x61FF, 0x61FE]).map(lambda size: "a" * size),
    st.text(alphabet="a\x01ÿþãà§").map(lambda text: "metadata.name" + text),
)
plain = st.sampled_from(["", "a", "aa", "metadata.name"])


@given(
    st.dictionaries(plain, plain),
    st.dictionaries(plain, st.one_of(plain, hostile)),
    st.one_of(plain, hostile),
    st.lists(st.one_of(plain, hostile)),
    plain,
    plain,
)
def test_facts_contain_the_bytes_of_exactly_the_labels_and_fields(
    labels: dict[str, str], fields: dict[str, str], uid: str, owners: list[str], key: str, value: str
) -> None:
    packed = pack_facts(labels, fields, uid, owners)
    assert (label_bytes(key, value) in packed) == (labels.get(key) == value)
    assert (label_bytes(key) in packed) == (key in labels)
    assert (field_bytes(key) in packed) == bool(fields.get(key))
    if value:
        assert (field_bytes(key, value) in packed) == (fields.get(key) == value)
