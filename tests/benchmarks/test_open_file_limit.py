"""The harness reports that it needs more sockets than the limit allows before it opens any."""

from __future__ import annotations

from benchmarks.servers.files import shortage


def test_few_sockets_fit_below_the_limit() -> None:
    assert shortage(10) == ""


def test_too_many_sockets_are_reported_with_the_remedy() -> None:
    assert "ulimit -Hn" in shortage(1 << 30)
