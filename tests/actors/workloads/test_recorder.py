"""Events are counted, combined and limited as in client-go v1.25."""

from __future__ import annotations

from typing import Any

from rewound.actors.messages import Object
from rewound.actors.workloads.recorder import Correlation

SECOND = 1_000_000


def event(message: str, reason: str = "Reason", about: str = "one", number: int = 0) -> Object:
    return {
        "metadata": {"name": f"{about}.{number}"},
        "involvedObject": {"kind": "Pod", "name": about, "uid": about},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": "first",
        "lastTimestamp": "last",
        "count": 1,
    }


def taken(correlation: Correlation, now: int = 0, **given: Any) -> tuple[str, int, str]:
    found = correlation.take(event(**given), now)
    assert found is not None
    return found[0]["metadata"]["name"], found[0]["count"], found[0]["message"]


def test_the_same_event_raises_the_count_of_the_first() -> None:
    correlation = Correlation()
    assert taken(correlation, message="m", number=1) == ("one.1", 1, "m")
    assert taken(correlation, message="m", number=2) == ("one.1", 2, "m")
    assert taken(correlation, message="m", number=3, about="two") == ("two.3", 1, "m")
    assert taken(correlation, message="other", number=4) == ("one.4", 1, "other")


def test_the_tenth_message_with_one_reason_is_combined_and_so_are_all_that_follow() -> None:
    correlation = Correlation()
    for number in range(9):
        assert taken(correlation, message=f"m{number}", number=number)[1] == 1
    combined = "(combined from similar events): "
    assert taken(correlation, message="m9", number=9) == ("one.9", 1, f"{combined}m9")
    assert taken(correlation, message="m10", number=10) == ("one.9", 2, f"{combined}m10")
    assert taken(correlation, message="x", reason="Other", number=11) == ("one.11", 1, "x")
    assert taken(correlation, now=601 * SECOND, message="m11", number=12) == ("one.12", 1, "m11")


def test_an_object_has_25_events_and_one_more_every_five_minutes() -> None:
    correlation = Correlation()
    for _ in range(25):
        assert correlation.take(event("m"), 0) is not None
    assert correlation.take(event("m"), 0) is None
    assert correlation.take(event("m", about="two"), 0) is not None
    assert correlation.take(event("m"), 299 * SECOND) is None
    assert correlation.take(event("m"), 301 * SECOND) is not None
    assert correlation.take(event("m"), 302 * SECOND) is None
