"""The harness never sends load to another machine."""

from __future__ import annotations

import pytest

from benchmarks.run import main
from benchmarks.servers.endpoint import Endpoint, NotLoopback
from tests.cases import cases


@cases("host", ["127.0.0.1", "127.3.2.1", "localhost", "[::1]"])
def test_loopback_address_is_accepted(host: str) -> None:
    endpoint = Endpoint.parse(f"https://{host}:6443", token="t", pids=(1,))
    assert (endpoint.port, endpoint.tls) == (6443, True)
    assert endpoint.url == f"https://{host}:6443"


@cases("host", ["10.0.0.1", "example.org", "[::2]", "0.0.0.0", "127.0.0.1.example.org"])
def test_other_address_is_refused(host: str) -> None:
    with pytest.raises(NotLoopback):
        Endpoint.parse(f"https://{host}:6443", token="t")


def test_command_prints_why_it_refuses_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "https://example.org"]) == 2
    assert "not a loopback address" in capsys.readouterr().err
