"""Which requests get indented JSON."""

import pytest

from rewound.gateway.wire.negotiate import wants_pretty
from tests.cases import cases


@cases("value", ["1", "true", "True", "t"])
def test_query_parameter_turns_indentation_on(value: str) -> None:
    assert wants_pretty(value, b"kubectl/v1.25")


@cases("value", ["0", "false", "2", "maybe"])
def test_any_other_value_turns_indentation_off(value: str) -> None:
    assert not wants_pretty(value, b"curl/8")


@pytest.mark.parametrize("unset", [None, ""])
def test_user_agents_of_people_get_indented_output(unset: str | None) -> None:
    for agent in (b"curl/8.1", b"Wget/1.21", b"Mozilla/5.0 (X11)"):
        assert wants_pretty(unset, agent)
    for agent in (b"", b"kubectl/v1.25", b"libcurl", b"Mozilla/4.0"):
        assert not wants_pretty(unset, agent)
