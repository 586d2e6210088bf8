"""Bytes travel as standard base64 and are stored in its one canonical spelling."""

from __future__ import annotations

import pytest

from actors.kinds.schema import NotDecodable
from tests.actors.kinds.declared import Declared


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("", ""), ("dg==", "dg=="), ("dh==", "dg=="), ("AAAA\nAAAA", "AAAAAAAA"), ("+/8=", "+/8=")],
)
def test_what_is_base64_is_stored(kinds: Declared, sent: str, stored: str) -> None:
    assert kinds.decode("secrets", {"data": {"k": sent}})["data"] == {"k": stored}


@pytest.mark.parametrize(
    ("sent", "at"), [("%%%", 0), ("AA", 2), ("AAA_", 3), ("-_8=", 0), ("A===", 1), ("dg==dg==", 2)]
)
def test_what_is_not_is_refused(kinds: Declared, sent: str, at: int) -> None:
    with pytest.raises(NotDecodable, match=f"illegal base64 data at input byte {at}"):
        kinds.decode("secrets", {"data": {"k": sent}})
