from __future__ import annotations

from rewound.gateway.ops.health import Health


def health() -> Health:
    health = Health(lambda: 0.0)
    health.add("journal", lambda: "the disk is full")
    return health


def test_single_check_is_reported_alone() -> None:
    assert health().report("livez", "ping") == (200, "ok")


def test_single_check_reports_the_reason() -> None:
    assert health().report("livez", "journal") == (500, "internal server error: the disk is full\n")


def test_unknown_check_has_no_report() -> None:
    assert health().report("livez", "nosuch") is None
    assert health().report("livez", "shutdown") is None
    assert health().report("readyz", "shutdown") == (200, "ok")


def test_names_are_the_checks_of_the_kind() -> None:
    assert health().names("livez") == ["ping", "start", "journal"]
    assert health().names("readyz") == ["ping", "start", "shutdown", "journal"]
