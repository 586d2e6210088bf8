from __future__ import annotations

from gateway.ops.health import Health


def health() -> Health:
    health = Health(lambda: 0.0)
    health.add("journal", lambda: "the disk is full")
    return health


def test_one_check_answers_for_itself() -> None:
    assert health().report("livez", "ping") == (200, "ok")


def test_one_check_tells_the_reason() -> None:
    assert health().report("livez", "journal") == (500, "internal server error: the disk is full\n")


def test_an_unknown_check_is_none() -> None:
    assert health().report("livez", "nosuch") is None
    assert health().report("livez", "shutdown") is None
    assert health().report("readyz", "shutdown") == (200, "ok")


def test_names_are_those_of_the_kind() -> None:
    assert health().names("livez") == ["ping", "start", "journal"]
    assert health().names("readyz") == ["ping", "start", "shutdown", "journal"]
