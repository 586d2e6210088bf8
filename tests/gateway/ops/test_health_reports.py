from __future__ import annotations

import pytest

from rewound.gateway.ops.health import KINDS, Check, Health, report_all
from tests.cases import cases


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def healthy() -> Health:
    health = Health(Clock())
    health.add("journal", lambda: None)
    health.finish_start()
    return health


def failing() -> Health:
    health = healthy()
    health.add("committer", lambda: "the disk of /secret/path is full")
    return health


@cases("kind", KINDS)
def test_passing_report_is_ok(kind: str) -> None:
    assert healthy().report(kind) == (200, "ok")


@pytest.mark.parametrize("kind", ["livez", "healthz"])
def test_verbose_report_lists_each_check(kind: str) -> None:
    expected = f"[+]ping ok\n[+]start ok\n[+]journal ok\n{kind} check passed\n"
    assert healthy().report(kind, verbose=True) == (200, expected)


def test_readyz_has_the_shutdown_check() -> None:
    expected = "[+]ping ok\n[+]start ok\n[+]shutdown ok\n[+]journal ok\nreadyz check passed\n"
    assert healthy().report("readyz", verbose=True) == (200, expected)


@pytest.mark.parametrize("verbose", [True, False])
def test_failing_report_is_verbose_and_withholds_the_reason(verbose: bool) -> None:
    expected = (
        "[+]ping ok\n[+]start ok\n[+]journal ok\n[-]committer failed: reason withheld\nlivez check failed\n"
    )
    assert failing().report("livez", verbose=verbose) == (500, expected)


def test_failing_check_can_be_excluded() -> None:
    assert failing().report("livez", exclude=["committer"]) == (200, "ok")
    report = failing().report("livez", verbose=True, exclude=["committer", "ping"])
    expected = (
        "[+]ping excluded: ok\n[+]start ok\n[+]journal ok\n[+]committer excluded: ok\nlivez check passed\n"
    )
    assert report == (200, expected)


def test_excluding_an_unknown_check_only_warns() -> None:
    report = healthy().report("livez", verbose=True, exclude=["nosuch", "ping", "also-not"])
    expected = (
        "[+]ping excluded: ok\n[+]start ok\n[+]journal ok\n"
        'warn: some health checks cannot be excluded: no matches for "also-not","nosuch"\n'
        "livez check passed\n"
    )
    assert report == (200, expected)
    assert healthy().report("livez", exclude=["nosuch"]) == (200, "ok")


def test_excluded_check_is_not_run() -> None:
    def explode() -> str | None:
        raise AssertionError

    report = report_all("livez", [Check("x", explode)], verbose=False, exclude=["x"], in_grace=False)
    assert report == (200, "ok")


def test_check_that_raises_has_failed() -> None:
    def explode() -> str | None:
        raise RuntimeError("boom")

    health = healthy()
    health.add("broken", explode)
    assert health.report("readyz", "broken") == (
        500,
        "internal server error: the check itself failed: boom\n",
    )
    report = health.report("readyz")
    assert report is not None
    assert report[0] == 500
