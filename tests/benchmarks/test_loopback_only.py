"""The harness never sends load to another machine."""

from __future__ import annotations

import pytest

from benchmarks.run import main
from benchmarks.servers.target import NotLoopback, Target


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]"])
def test_this_machine(host: str) -> None:
    target = Target.parse(f"https://{host}:6443", token="t", pids=(1,))
    assert (target.port, target.tls) == (6443, True)
    assert target.url == f"https://{host}:6443"


@pytest.mark.parametrize("host", ["10.0.0.1", "example.org", "[::2]", "0.0.0.0", "127.0.0.1.example.org"])
def test_another_machine(host: str) -> None:
    with pytest.raises(NotLoopback):
        Target.parse(f"https://{host}:6443", token="t")


def test_the_command_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "https://example.org"]) == 2
    assert "not a loopback address" in capsys.readouterr().err
