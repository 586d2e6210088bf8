"""Rules are bounded, whatever a journal or a file has: steps, memory, sizes of objects; they say what they forgot."""

from __future__ import annotations

from typing import Any

import orjson

from rewound.recording.rules.engine import Rule
from rewound.recording.rules.occurrence import Occurrence
from rewound.recording.rules.windows import MOST_KEYS, Window
from tests.recording.rules.story import CONFIG_MAP, POD, Story, each, only, rules_of


def rule(expression: str, **more: Any) -> list[Rule]:
    text = orjson.dumps({"name": "mine", "expression": expression, **more}).decode()
    return [one for one in rules_of(f"rules: [{text}]\n") if one.name == "mine"]


def test_expressions_that_take_long() -> None:
    numbers = str(list(range(30)))
    nested = "0"
    for _ in range(6):
        nested = f"{numbers}.map(x, {nested}).size()"

    def are_ended_and_switched_off() -> None:
        story = Story(rule(f"{nested} > 0"))
        for at in range(30):
            story.write(POD, f"a-{at}", {})
        (found,) = story.engine.rules
        assert story.alerts == []
        assert found.statistics.failures == 20
        assert "20 evaluations took too long" in found.statistics.off

    def by_a_regular_expression() -> None:
        story = Story(rule("object.data.text.matches(object.data.pattern)"))
        for at in range(30):
            data = {"text": "a" * 100_000, "pattern": "(x+x+)+y" * 100}
            story.write(CONFIG_MAP, f"a-{at}", {"data": data})
        (found,) = story.engine.rules
        assert story.alerts == []
        assert "20 evaluations took too long" in found.statistics.off

    def do_not_end_others() -> None:
        story = Story([*rule(f"{nested} > 0"), *rule('event.kind == "Pod"')])
        for at in range(30):
            story.write(POD, f"a-{at}", {})
        assert len(story.alerts) == 20  # the limit of alerts

    def an_error_of_one_object_switches_nothing_off() -> None:
        story = Story(rule("object.spec.replicas > 1"))
        for at in range(100):
            story.write(POD, f"a-{at}", {})
        story.write(POD, "b", {"spec": {"replicas": 2}})
        (found,) = story.engine.rules
        assert [one.name for one in story.alerts] == ["b"]
        assert (found.statistics.failures, found.statistics.failure) == (100, "no such key: spec")

    each(
        are_ended_and_switched_off,
        by_a_regular_expression,
        do_not_end_others,
        an_error_of_one_object_switches_nothing_off,
    )


def test_a_hundred_thousand_keys() -> None:
    window = Window(3600_000_000)
    for at in range(100_000):
        window.add(f"key {at}", at)
    assert (len(window), window.forgotten) == (MOST_KEYS, 100_000 - MOST_KEYS)
    assert window.count("key 0", 100_000) == 0
    assert window.count("key 99999", 100_000) == 1


def test_a_key_with_many_entries() -> None:
    window = Window(3600_000_000)
    for at in range(50_000):
        window.add("busy", at)
    window.add("other", 50_000)
    assert (window.count("busy", 50_000), window.dropped) == (20_000, 30_000)
    assert window.count("other", 50_000) == 1


def test_windows_forget_what_is_old() -> None:
    window = Window(1000, distinct=True)
    for at in range(5000):
        window.add(f"key {at}", at, "same")
        window.add("always", at, at % 3)
    assert len(window) < 2100
    assert (window.forgotten, window.dropped) == (0, 0)
    assert window.count("always", 5000) == 3


def test_a_rule_says_what_it_forgot() -> None:
    story = Story(rule('count(true, event.name, "1h") > 1'))
    written = story.write(POD, "a", {})
    for at in range(MOST_KEYS + 50):
        event = written.event._replace(name=f"a-{at}")
        story.engine.feed(Occurrence(written.kind, event, written.contents))
    assert story.engine.rules[0].statistics.forgotten == 51


def test_keys_that_are_no_names() -> None:
    def long_ones_are_hashed() -> None:
        story = Story(rule('count(true, object.data.key, "1h") == 2', groupBy=["object.data.key"]))
        for at in range(3):
            story.write(CONFIG_MAP, f"a-{at}", {"data": {"key": "x" * 100_000 + str(at // 2)}})
        (alert,) = story.alerts
        assert dict(alert.labels)["key"].startswith("sha256:")

    def maps_are_refused() -> None:
        story = Story(rule('count(true, object.data, "1h") == 2'))
        story.write(CONFIG_MAP, "a", {"data": {}})
        assert story.engine.rules[0].statistics.failure == "a key must be a string, a number or a bool"

    each(long_ones_are_hashed, maps_are_refused)


def test_huge_objects_are_not_compared() -> None:
    story = Story(only("fights"))
    for at in range(8):
        story.write(CONFIG_MAP, "huge", {"data": {"a": str(at), "b": "x" * (1 << 20)}}, by=f"writer-{at % 2}")
    assert story.alerts == []


def test_bodies_that_are_no_objects() -> None:
    """A recording may have anything."""
    story = Story(rules_of(""))
    for body in (b"", b"[]", b"null", b'{"metadata": [], "status": 7, "spec": "x"}', b"{"):
        for _ in range(3):
            written = story.write(POD, "odd", {})
            event = written.event
            for extra in (b"", b'"restartCount":1 "deletionTimestamp" "time":"9999-99-99T99:99:99Z"'):
                changed = event._replace(body=body + extra, offset=event.offset + 1_000_000)
                story.feed(type(written)(written.kind, changed, written.contents))
    assert story.alerts == []
