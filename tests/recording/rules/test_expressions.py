"""Rules in CEL: what they see of an event, windows, `for`, groups, messages and limits."""

from __future__ import annotations

from typing import Any

from rewound.recording.rules.engine import Rule
from tests.cases import cases
from tests.recording.rules.story import (
    CONFIG_MAP,
    DEPLOYMENT,
    MINUTE,
    POD,
    SECOND,
    START,
    Story,
    each,
    rules_of,
)


def rule(expression: str, **more: Any) -> list[Rule]:
    import orjson

    given = {"name": "mine", "expression": expression, **more}
    found = rules_of(f"rules: [{orjson.dumps(given).decode()}]\n")
    return [one for one in found if one.name == "mine"]


@cases(
    "expression",
    [
        'event.kind == "Deployment" && event.group == "apps" && event.resource == "deployments"',
        'event.apiVersion == "apps/v1" && event.namespace == "shop" && event.name == "web"',
        'event.verb == "update" && event.change == "updated" && !event.removed && !event.refused',
        'event.user == "bob" && event.manager == "kubectl" && event.offset == 2 && event.code == 0',
        'event.time == timestamp("2026-09-21T14:13:40Z")',
        'event.changed == ["spec.replicas"]',
        "object.spec.replicas == 5 && oldObject.spec.replicas == 2",
        'object.kind == "Deployment" && object.apiVersion == "apps/v1"',
        'event.kind in ["Pod", "Deployment"] && "updated" == event.change',
        'event.reason == "" && event.message == ""',
        "has(object.spec) && !has(object.status) && object.?status.?replicas.orValue(7) == 7",
    ],
)
def test_what_an_expression_sees(expression: str) -> None:
    story = Story(rule(f"{expression} && oldObject != null"))
    story.write(DEPLOYMENT, "web", {"spec": {"replicas": 2}}, by="alice")
    story.wait(20)
    story.now = START + 20 * SECOND
    story.write(DEPLOYMENT, "web", {"spec": {"replicas": 5}}, by="bob", manager="kubectl")
    (found,) = story.engine.rules
    assert (story.announced(), found.statistics.failures) == ([("firing", "mine")], 0)


def test_the_example_of_the_documents() -> None:
    story = Story(rule('event.kind == "Deployment" && fights(event, "5m")'))
    for kind in (CONFIG_MAP, DEPLOYMENT):
        for at in range(6):
            story.write(kind, "web", {"spec": {"replicas": at}}, by=f"controller-{at % 2}")
    (alert,) = story.alerts
    assert alert.labels == (("kind", "Deployment"), ("namespace", "shop"), ("name", "web"))
    assert alert.message == "mine: updated Deployment shop/web by controller-0"
    assert story.engine.rules[0].statistics.events == 6


def test_windows() -> None:
    def count_by_a_key() -> None:
        story = Story(rule('count(event.verb == "delete", event.user, "1m") >= 3', groupBy=["event.user"]))
        for at in range(2):
            story.delete(POD, f"a-{at}", by="alice")
            story.delete(POD, f"b-{at}", by="bob")
        story.write(POD, "other", {}, by="alice")
        assert story.alerts == []
        story.wait(30)
        story.delete(POD, "a-3", by="alice")
        assert [one.labels for one in story.alerts] == [(("user", "alice"),)]

    def entries_leave_the_window() -> None:
        story = Story(rule('count(event.verb == "delete", event.user, "1m") >= 3'))
        for at in range(9):
            story.delete(POD, f"a-{at}")
            story.wait(31)
        assert story.alerts == []

    def count_of_one_object() -> None:
        story = Story(rule('count(event, "1m") == 3'))
        for name in ("a", "b", "a", "b", "a"):
            story.write(POD, name, {})
        assert [one.name for one in story.alerts] == ["a"]

    def count_without_a_key() -> None:
        story = Story(rule('count(event.kind == "Pod", "1m") == 3'))
        for name in ("a", "b", "c"):
            story.write(POD, name, {})
        assert [one.name for one in story.alerts] == ["c"]

    def rate() -> None:
        story = Story(rule('rate(event, "10s") >= 0.5'))
        for _ in range(5):
            assert story.alerts == []
            story.write(POD, "a", {})
            story.wait(1)
        assert story.announced() == [("firing", "mine")]

    def distinct() -> None:
        text = 'distinct(event.verb == "delete", event.user, event.namespace, "1m") == 3'
        story = Story(rule(text, groupBy=["event.user"]))
        for at in range(6):
            story.delete(POD, f"a-{at}", namespace="same")
        assert story.alerts == []
        story.delete(POD, "a", namespace="second")
        story.delete(POD, "a", namespace="third")
        assert story.announced() == [("firing", "mine")]

    def the_guard_decides_what_a_window_sees() -> None:
        story = Story(rule('event.kind == "Pod" && count(event.verb == "delete", event.user, "1m") == 2'))
        story.delete(CONFIG_MAP, "a")
        story.delete(POD, "a")
        assert story.alerts == []
        story.delete(POD, "b")
        assert story.announced() == [("firing", "mine")]

    def what_stands_before_it_does_not() -> None:
        story = Story(rule('event.name.startsWith("b") && count(event, "1m") == 1'))
        story.write(POD, "b", {})
        assert story.announced() == [("firing", "mine")]

    each(
        count_by_a_key,
        entries_leave_the_window,
        count_of_one_object,
        count_without_a_key,
        rate,
        distinct,
        the_guard_decides_what_a_window_sees,
        what_stands_before_it_does_not,
    )


def test_refused_requests() -> None:
    def are_seen_by_rules_that_name_them() -> None:
        story = Story(rule('event.refused && event.code == 403 && event.message.contains("cannot")'))
        story.refuse("alice", message="alice cannot create pods")
        story.refuse("alice", 422)
        assert [one.user for one in story.alerts] == ["alice"]

    def and_by_no_others() -> None:
        story = Story(rule('event.kind == "Pod"'))
        story.refuse("alice")
        assert story.alerts == []

    def have_no_object() -> None:
        story = Story(rule("event.refused && object == null && oldObject == null"))
        story.refuse("alice")
        assert story.announced() == [("firing", "mine")]

    each(are_seen_by_rules_that_name_them, and_by_no_others, have_no_object)


UNAVAILABLE = 'event.kind == "Deployment" && object.?status.unavailableReplicas.orValue(0) > 0'


def unavailable(story: Story, number: int, name: str = "web") -> None:
    story.write(DEPLOYMENT, name, {"status": {"unavailableReplicas": number}})


def test_states() -> None:
    def fire_when_they_have_lasted() -> None:
        story = Story(rule(UNAVAILABLE, **{"for": "10m"}))
        unavailable(story, 1)
        began = story.now
        story.wait(300)
        unavailable(story, 2)
        story.wait(299)
        assert story.alerts == []
        story.wait(500)
        assert story.announced() == [("firing", "mine")]
        assert story.alerts[0].time == began + 10 * MINUTE
        unavailable(story, 0)
        assert story.announced()[1:] == [("resolved", "mine")]
        assert story.alerts[1].time == story.now

    def end_in_between() -> None:
        story = Story(rule(UNAVAILABLE, **{"for": "10m"}))
        for _ in range(10):
            unavailable(story, 1)
            story.wait(599)
            unavailable(story, 0)
        assert story.alerts == []

    def end_with_the_object() -> None:
        story = Story(rule(UNAVAILABLE, **{"for": "10m"}))
        unavailable(story, 1)
        story.wait(601)
        story.write(DEPLOYMENT, "web", {"status": {"unavailableReplicas": 1}}, removed=True)
        assert story.announced() == [("firing", "mine"), ("resolved", "mine")]

    def belong_to_their_object() -> None:
        story = Story(rule(UNAVAILABLE, **{"for": "10m"}))
        unavailable(story, 1, "a")
        unavailable(story, 1, "b")
        story.wait(300)
        unavailable(story, 0, "a")
        story.wait(301)
        assert [one.name for one in story.alerts] == ["b"]

    each(fire_when_they_have_lasted, end_in_between, end_with_the_object, belong_to_their_object)


def test_the_clock_may_tick_coarsely() -> None:
    """The same events give the same alerts, with whatever ticks between them."""
    found = []
    for ticks in ([1200], [1] * 1200, [7, 600, 593]):
        story = Story([*rule(UNAVAILABLE, **{"for": "10m"}), *rule('event.kind == "Deployment"')])
        unavailable(story, 1)
        for seconds in ticks:
            story.wait(seconds)
        unavailable(story, 0)
        story.wait(1200)
        found.append(sorted((one.time, one.id, one.state, one.message) for one in story.alerts))
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]


def test_an_alert_fires_once_and_is_resolved_once() -> None:
    story = Story(rule('event.kind == "Pod"', resolveAfter="2m"))
    for _ in range(10):
        story.write(POD, "a", {})
        story.wait(110)
    assert story.announced() == [("firing", "mine")]
    last = story.now - 110 * SECOND
    story.wait(600)
    assert story.announced() == [("firing", "mine"), ("resolved", "mine")]
    assert (story.alerts[1].time, story.alerts[1].count) == (last + 2 * MINUTE, 10)
    story.write(POD, "a", {})
    assert story.announced()[2:] == [("firing", "mine")]
    assert story.alerts[2].id != story.alerts[0].id


def test_a_limit_leaves_alerts_out() -> None:
    story = Story(rule('event.kind == "Pod"', rateLimit={"alerts": 3, "per": "1h"}))
    for at in range(10):
        story.write(POD, f"a-{at}", {})
    assert [one.name for one in story.alerts] == ["a-0", "a-1", "a-2"]
    story.wait(3600)
    assert len([one for one in story.alerts if one.state == "resolved"]) == 3
    story.write(POD, "later", {})
    assert story.alerts[-1].name == "later"
    assert story.alerts[-1].left_out == 7
    assert story.engine.rules[0].statistics.left_out == 7


def test_messages() -> None:
    def have_expressions() -> None:
        text = "{{event.user}} set {{ object.spec.replicas }} of {{event.name}} at {{ event.time }}: {{ object.spec }}"
        story = Story(rule('event.kind == "Deployment"', message=text))
        story.write(DEPLOYMENT, "web", {"spec": {"replicas": 2}})
        assert story.alerts[0].message == (
            'alice set 2 of web at 2026-09-21T14:13:20.000000Z: {"replicas":2}'
        )

    def say_what_is_not_there() -> None:
        story = Story(rule('event.kind == "Deployment"', message="{{ object.spec.replicas }}!"))
        story.write(DEPLOYMENT, "web", {})
        assert story.alerts[0].message == "(object.spec.replicas: no such key: spec)!"

    def are_cut() -> None:
        story = Story(rule('event.kind == "ConfigMap"', message="{{ object.data.long }}"))
        story.write(CONFIG_MAP, "c", {"data": {"long": "x" * 500_000}})
        assert story.alerts[0].message == "x" * 1000

    each(have_expressions, say_what_is_not_there, are_cut)
