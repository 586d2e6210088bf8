"""More sockets than the machine allows are told of before any is opened."""

from __future__ import annotations

from benchmarks.servers.files import shortage


def test_a_few_are_fine() -> None:
    assert shortage(10) == ""


def test_too_many_are_told() -> None:
    assert "ulimit -Hn" in shortage(1 << 30)
