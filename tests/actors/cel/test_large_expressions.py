"""Expressions that RE2 takes long to compile: it holds the GIL meanwhile."""

from __future__ import annotations

import threading
import time

import pytest

from rewound.actors.cel.go_regexp import InvalidExpression, compile_re2, is_large


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def in_thread(source: str) -> None:
    thread = threading.Thread(target=compile_re2, args=(source,))
    thread.start()
    thread.join(60)


def test_a_worker_thread_lets_others_run_after_a_large_expression(pauses: list[float]) -> None:
    in_thread(r"^[a-z]{1,63}$")
    assert pauses == []
    for number in range(2):
        in_thread(rf"\pL{{40}}{number}")
    assert len(pauses) == 2 and min(pauses) > 0.001


def test_the_event_loop_does_not_pause(pauses: list[float]) -> None:
    assert is_large(compile_re2(r"\pL{40}"))
    assert pauses == []


def test_expressions_have_a_largest_size() -> None:
    assert is_large(compile_re2(r"\p{L}{0,63}"))
    with pytest.raises(InvalidExpression, match="expression too large"):
        compile_re2(r"\pL{200}")
