from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from actors.facts import Facts, pack_facts, unpack_facts

words = st.dictionaries(st.text(), st.text())


@given(words, words, st.text(), st.lists(st.text()))
def test_what_is_packed_comes_back(
    labels: dict[str, str], fields: dict[str, str], uid: str, owners: list[str]
) -> None:
    assert unpack_facts(pack_facts(labels, fields, uid, owners)) == Facts(labels, fields, uid, tuple(owners))


def test_the_bytes_are_those_of_every_earlier_release() -> None:
    packed = pack_facts({"app": "web"}, {"metadata.name": "a"}, "u-1", ["u-0"])
    assert packed.hex() == "9481a3617070a377656281ad6d657461646174612e6e616d65a161a3752d3191a3752d30"


def test_items_that_a_later_layout_adds_are_passed_over() -> None:
    packed = msgpack.packb([{"app": "web"}, {}, "u-1", [], "from the future", 7])
    assert unpack_facts(packed) == Facts({"app": "web"}, {}, "u-1", ())
