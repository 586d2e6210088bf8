"""Bytes are standard base64 and are stored in canonical form."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


@cases(
    ("sent", "stored"),
    [("", ""), ("dg==", "dg=="), ("dh==", "dg=="), ("AAAA\nAAAA", "AAAAAAAA"), ("+/8=", "+/8=")],
)
def test_base64_is_stored_in_canonical_form(kinds: Definitions, sent: str, stored: str) -> None:
    assert kinds.decode("secrets", {"data": {"k": sent}})["data"] == {"k": stored}


@cases(
    ("sent", "at"),
    [
        *[("%%%", 0), ("AAA_", 3), ("-_8=", 0), ("A===", 1), ("=", 0), ("AAAA\nA%", 6)],
        *[("A", 0), ("AA", 0), ("AAAAAAA", 4), ("dg==dg==", 4), ("dg=", 3), ("dg=x", 2), ("AAA=A", 4)],
    ],
)
def test_invalid_base64_is_refused(kinds: Definitions, sent: str, at: int) -> None:
    with pytest.raises(NotDecodable, match=f"illegal base64 data at input byte {at}$"):
        kinds.decode("secrets", {"data": {"k": sent}})
