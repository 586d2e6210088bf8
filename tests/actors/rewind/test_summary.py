"""The summary of a write: what it changed, in one line."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from rewound.actors.rewind.summary import MAX_CHANGES, line_of, summarize

Document = dict[str, Any]


def changed(before: Document, after: Document, *, secret: bool = False) -> Document:
    return summarize(orjson.dumps(before), orjson.dumps(after), secret=secret)


def created(after: Any) -> str:
    return str(summarize(None, orjson.dumps(after), secret=False)["text"])


def deployment(replicas: int, image: str, **status: Any) -> Document:
    return {
        "metadata": {
            "name": "web",
            "generation": replicas,
            "resourceVersion": image,
            "labels": {"of": image},
        },
        "spec": {
            "replicas": replicas,
            "template": {
                "spec": {"containers": [{"name": "log", "image": "log"}, {"name": "web", "image": image}]}
            },
        },
        "status": status,
    }


def test_what_was_asked_for_comes_first() -> None:
    found = changed(
        deployment(2, "web:1", readyReplicas=2, observedGeneration=1),
        deployment(5, "web:2", readyReplicas=1, observedGeneration=2),
    )
    assert found == {
        "changes": [
            {"field": "spec.replicas", "old": 2, "new": 5},
            {"field": "spec.template.spec.containers[name=web].image", "old": "web:1", "new": "web:2"},
            {"field": "metadata.labels.of", "old": "web:1", "new": "web:2"},
        ],
        "more": 2,
        "statusOnly": False,
    }
    assert line_of(found).startswith(
        "spec.replicas 2 → 5, spec.template.spec.containers[name=web].image web:1 →"
    )
    assert line_of(found).endswith("and 2 more")


def test_conditions_by_their_status() -> None:
    def pod(status: str, time: str) -> Document:
        return {"status": {"conditions": [{"lastTransitionTime": time, "status": status, "type": "Ready"}]}}

    found = changed(pod("False", "1"), pod("True", "2"))
    assert found["changes"][0] == {
        "field": "status.conditions[type=Ready].status",
        "old": "False",
        "new": "True",
    }
    assert found["statusOnly"]
    assert not changed(pod("True", "2"), pod("True", "2"))["statusOnly"]


def test_added_conditions_by_their_status() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "now", "message": "m" * 100}
    ready = {"type": "Ready", "status": "False", "reason": "r" * 100}
    found = changed({"status": {}}, {"status": {"conditions": [scheduled]}})
    assert found["changes"] == [{"field": "status.conditions[type=PodScheduled].status", "new": "True"}]
    found = changed({"status": {"conditions": [scheduled]}}, {"status": {"conditions": [scheduled, ready]}})
    assert found["changes"] == [{"field": "status.conditions[type=Ready].status", "new": "False"}]
    found = changed({"status": {"conditions": [scheduled, ready]}}, {"status": {"conditions": [scheduled]}})
    assert found["changes"] == [{"field": "status.conditions[type=Ready].status", "old": "False"}]
    empty = changed({"status": {}}, {"status": {"conditions": []}})
    assert empty["changes"] == [{"field": "status.conditions", "new": []}]
    odd = changed({"status": {}}, {"status": {"conditions": [{"type": {}, "status": "x"}, 7]}})
    assert odd["changes"][0]["field"] == "status.conditions"


def test_added_removed_and_long_values() -> None:
    found = changed({"data": {"a": "x" * 500}}, {"data": {"b": {"c": ["y" * 500]}, "d": None}})
    by_field = {change["field"]: change for change in found["changes"]}
    assert by_field["data.a"] == {"field": "data.a", "old": "x" * 79 + "…"}
    assert by_field["data.b"] == {"field": "data.b", "new": '{"c":["' + "y" * 72 + "…"}
    assert by_field["data.d"] == {"field": "data.d", "new": None}
    assert "+ data.d null" in line_of(found)


def test_values_of_secrets_are_not_shown() -> None:
    annotated = {"metadata": {"annotations": {"last": "hunter2"}}, "data": {"a": "hunter2"}}
    found = changed({"metadata": {"labels": {"of": "x"}}, "data": {"a": "c2VjcmV0"}}, annotated, secret=True)
    assert {"field": "data.a", "old": "***", "new": "***"} in found["changes"]
    assert {"field": "metadata.annotations", "new": "***"} in found["changes"]
    whole = changed({"metadata": 1}, annotated, secret=True)
    for document in (found, whole):
        assert b"hunter2" not in orjson.dumps(document)
    assert created(annotated) == "1 key"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (deployment(2, "web:1"), "replicas 2, images log, web:1"),
        ({"spec": {"containers": [{"image": "web:1"}], "nodeName": "n1"}}, "image web:1, nodeName n1"),
        ({"spec": {"schedule": "* * * * *"}}, "schedule * * * * *"),
        (
            {"spec": {"type": "ClusterIP", "ports": [{"port": 80}, {"port": 443}]}},
            "type ClusterIP, ports 80, 443",
        ),
        ({"data": {"a": "1", "b": "2"}}, "2 keys"),
        ({"reason": "Killed", "message": "m" * 200}, "Killed: " + "m" * 71 + "…"),
        # Custom objects may contain anything.
        ({"spec": [1], "data": 3, "roleRef": None}, ""),
        ({"spec": {"replicas": {"a": 1}, "containers": {"image": 1}, "ports": [80], "type": []}}, ""),
        ({"spec": {"template": {"spec": 7}, "resources": {"requests": []}}, "reason": 5}, ""),
        ([1], ""),
    ],
)
def test_texts_about_created_objects(content: Any, text: str) -> None:
    assert created(content) == text


def test_one_change_among_thousands() -> None:
    conditions = [{"type": f"C{at}", "status": "True"} for at in range(5000)]
    flipped = [{**one, "status": "False"} for one in conditions]
    found = changed({"status": {"conditions": conditions}}, {"status": {"conditions": flipped}})
    assert (len(found["changes"]), found["more"]) == (3, 4997)


def memory_of(before: Document, after: Document) -> int:
    """The memory of a summary in bytes, without the objects."""
    one, other = orjson.dumps(before), orjson.dumps(after)
    summarize(one, other, secret=False)
    tracemalloc.start()
    try:
        summarize(one, other, secret=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("new", [1, 2], ids=["one changed field", "all fields changed"])
@pytest.mark.parametrize(
    "above",
    [lambda fields: {"k" * 20_000: fields}, lambda fields: {"a": [{"name": "k" * 20_000, "of": fields}]}],
    ids=["key", "item"],
)
def test_memory_does_not_grow_with_long_keys_above_many_fields(
    above: Callable[[Document], Document], new: int
) -> None:
    fields = {f"f{number}": 1 for number in range(5000)}
    after = {**dict.fromkeys(fields, new), "f0": 3}
    assert memory_of(above(fields), above(after)) < 15 << 20


def test_summary_looks_at_a_bounded_number_of_changes() -> None:
    many, others = ({f"f{number}": value for number in range(20_000)} for value in (1, 2))
    found = changed({"status": many, "spec": 1}, {"status": others, "spec": 1})
    assert found["more"] == MAX_CHANGES - 3
    assert found["statusOnly"]
    assert not changed({"status": many, "spec": 1}, {"status": others, "spec": 2})["statusOnly"]
