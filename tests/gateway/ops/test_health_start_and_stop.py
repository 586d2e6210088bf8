from __future__ import annotations

from rewound.gateway.ops.health import KINDS, Health


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def status(health: Health, kind: str, single: str = "") -> int:
    report = health.report(kind, single)
    assert report is not None
    return report[0]


def test_all_reports_fail_before_the_start_is_finished() -> None:
    health = Health(Clock())
    assert [status(health, kind) for kind in KINDS] == [500, 500, 500]
    health.finish_start()
    assert [status(health, kind) for kind in KINDS] == [200, 200, 200]


def test_livez_passes_an_unfinished_start_during_its_grace_period() -> None:
    health = Health(clock := Clock(), livez_grace=30.0)
    clock.now += 29.9
    assert [status(health, kind) for kind in KINDS] == [200, 500, 500]
    assert status(health, "livez", "start") == 200
    clock.now += 0.1
    assert [status(health, kind) for kind in KINDS] == [500, 500, 500]
    assert status(health, "livez", "start") == 500


def test_livez_grace_period_covers_no_other_check() -> None:
    health = Health(Clock(), livez_grace=30.0)
    health.add("journal", lambda: "the disk is full")
    assert status(health, "livez") == 500


def test_readyz_fails_when_the_shutdown_begins() -> None:
    health = Health(Clock())
    health.finish_start()
    health.begin_shutdown()
    assert [status(health, kind) for kind in KINDS] == [200, 500, 200]
