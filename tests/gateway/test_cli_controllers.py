"""--controllers chooses controllers by the names of v1.25."""

from __future__ import annotations

import pytest

from gateway.cli.flags.parser import parse_flags
from gateway.settings.checks import SettingsError
from gateway.settings.controllers import CONTROLLERS, WITH_BOOTSTRAP_TOKENS

ALL = frozenset(CONTROLLERS)


def enabled(*flags: str) -> frozenset[str]:
    return parse_flags(flags)[0].controllers.enabled_controllers()


def test_all_run_by_default_but_those_of_bootstrap_tokens() -> None:
    assert enabled() == enabled("--controllers=*") == ALL - {"bootstrapsigner", "tokencleaner"}
    assert enabled("--enable-bootstrap-token-auth") == ALL
    assert WITH_BOOTSTRAP_TOKENS == ("bootstrapsigner", "tokencleaner")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--controllers=namespace"], {"namespace"}),
        (["--controllers=namespace,endpoint"], {"namespace", "endpoint"}),
        (["--controllers=namespace", "--controllers=endpoint"], {"namespace", "endpoint"}),
        (["--controllers=-namespace"], set()),
        (["--controllers=*,-namespace", "--enable-bootstrap-token-auth"], ALL - {"namespace"}),
        (["--controllers=-namespace,*", "--enable-bootstrap-token-auth"], ALL - {"namespace"}),
        (["--controllers=*,tokencleaner"], ALL - {"bootstrapsigner"}),
        (["--controllers=*,-tokencleaner", "--enable-bootstrap-token-auth"], ALL - {"tokencleaner"}),
        (["--controllers=endpoint,-endpoint"], {"endpoint"}),
    ],
)
def test_names_stars_and_exceptions(flags: list[str], expected: set[str]) -> None:
    assert enabled(*flags) == expected


@pytest.mark.parametrize("wrong", ["deployment-controller", "-nonsense", "**", "garbage collector"])
def test_unknown_names_are_refused_with_the_known_ones(wrong: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_flags([f"--controllers=*,{wrong}"])
    assert str(refused.value).startswith(f"--controllers: there is no controller '{wrong}'; give ")
    assert "bootstrapsigner, clusterrole-aggregation, csrapproving" in str(refused.value)
