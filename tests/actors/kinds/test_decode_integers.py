"""Integers are whole numbers of 32 or 64 bits, written as such."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


@cases("text", ["0", "-0", "5", "-2147483648", "2147483647"])
def test_32_bit_integers_are_accepted(kinds: Definitions, text: str) -> None:
    decoded = kinds["priorityclasses"].schema.decode_json(b'{"value":%s}' % text.encode())
    assert decoded.object["value"] == int(text)


@cases("text", ["2147483648", "-2147483649", "1.5", "1.0", "1e3", "9" * 30])
def test_other_values_are_refused(kinds: Definitions, text: str) -> None:
    with pytest.raises(NotDecodable, match=r"PriorityClass\.value of type int32"):
        kinds["priorityclasses"].schema.decode_json(b'{"value":%s}' % text.encode())


def test_64_bit_integers_are_accepted_where_declared(kinds: Definitions) -> None:
    decode = kinds["configmaps"].schema.decode_json
    largest = b'{"metadata":{"deletionGracePeriodSeconds":9223372036854775807}}'
    assert decode(largest).object["metadata"]["deletionGracePeriodSeconds"] == 2**63 - 1
    with pytest.raises(NotDecodable, match="of type int64"):
        decode(b'{"metadata":{"deletionGracePeriodSeconds":9223372036854775808}}')


def test_a_million_digits_are_refused_with_a_short_message(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable) as refused:
        kinds["priorityclasses"].schema.decode_json(b'{"value":' + b"9" * 1_000_000 + b"}")
    assert len(str(refused.value)) < 300


def test_whole_floats_in_decoded_objects_are_integers(kinds: Definitions) -> None:
    assert kinds["priorityclasses"].schema.decode_object({"value": 5.0}).object["value"] == 5
