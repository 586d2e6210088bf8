"""Who gets indented output."""

import pytest

from gateway.wire.negotiate import wants_pretty


@pytest.mark.parametrize("value", ["1", "true", "True", "t"])
def test_asked_for(value: str) -> None:
    assert wants_pretty(value, b"kubectl/v1.25")


@pytest.mark.parametrize("value", ["0", "false", "2", "maybe"])
def test_declined_by_any_other_word(value: str) -> None:
    assert not wants_pretty(value, b"curl/8")


@pytest.mark.parametrize("unset", [None, ""])
def test_people_get_it_unasked(unset: str | None) -> None:
    for agent in (b"curl/8.1", b"Wget/1.21", b"Mozilla/5.0 (X11)"):
        assert wants_pretty(unset, agent)
    for agent in (b"", b"kubectl/v1.25", b"libcurl", b"Mozilla/4.0"):
        assert not wants_pretty(unset, agent)
