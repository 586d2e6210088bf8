"""kwok stages: which one an object gets, after which delay, and how it changes the object."""

from __future__ import annotations

import random
from typing import Any, TypeVar

import pytest

from rewound import Rewound
from rewound.actors.cel.kwok import language_of_stages
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.steps import Steps
from rewound.actors.stages.stage import Moment, Stage, StageError, StagePatch, StageSet, changed_finalizers
from rewound.actors.stages.templates import Template
from tests.cases import cases

STAGES = "/apis/kwok.x-k8s.io/v1alpha1/stages"
PODS = "/api/v1/namespaces/default/pods"
T = TypeVar("T")
NOW = Moment(1_700_000_000_000_000, random.Random(1))  # 2023-11-14T22:13:20Z
LANGUAGE = language_of_stages(KUBERNETES)


def stage(name: str = "s", kind: str = "Pod", **spec: Any) -> Object:
    content = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": {}, **spec}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": content,
    }


def compiled(stored: Object) -> Stage:
    return Stage(stored, LANGUAGE)


def result(steps: Steps[T]) -> T:
    found: list[T] = []

    def whole() -> Steps[None]:
        found.append((yield from steps))

    list(whole())
    return found[0]


def refused(stage: Stage, reason: str) -> None:
    raise AssertionError(f"{stage.name}: {reason}")


def pod(phase: str = "Pending", **metadata: Any) -> Object:
    return {"metadata": {"name": "p", **metadata}, "status": {"phase": phase}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        ]
    }


def cel(*texts: str) -> Object:
    return {"matchExpressions": [{"cel": {"expression": text}} for text in texts]}


@cases(
    "selector, matches",
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchAnnotations": {"a": "b"}}, False),
        (expression(".status.phase", "In", "Pending", "Running"), True),
        (expression(".status.phase", "NotIn", "Pending"), False),
        (expression(".status.missing", "NotIn", "x"), True),
        (expression(".status.missing[].x", "DoesNotExist"), True),
        (expression(".metadata.labels", "Exists"), True),
        (expression(".metadata.labels.app", "DoesNotExist"), False),
        ({"matchExpressions": [{"jq": {"key": ".status.phase", "operator": "Exists"}}]}, True),
        (cel("self.status.phase == 'Pending'", "!has(self.metadata.deletionTimestamp)"), True),
        (cel("self.status.phase == 'Pending'", "self.status.missing == 'x'"), False),
        (cel("self.status.phase"), False),
    ],
)
def test_stage_applies_to_objects_that_its_selector_matches(selector: Object | None, matches: bool) -> None:
    assert result(compiled(stage(selector=selector)).matches(pod(labels={"app": "web"}), NOW)) is matches


@cases(
    "delay, seconds",
    [
        ({}, (0, 0)),
        ({"durationMilliseconds": 1500}, (1.5, 1.5)),
        ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}, (1, 5)),
        ({"durationMilliseconds": 1000, "jitterDurationMilliseconds": 500}, (0.5, 0.5)),
        ({"durationFrom": {"expressionFrom": '.metadata.annotations["delay"]'}}, (90, 90)),
        ({"durationFrom": {"expressionFrom": ".metadata.deletionTimestamp"}}, (30, 30)),
        ({"durationFrom": {"expressionFrom": ".metadata.past"}}, (0, 0)),
        ({"durationFrom": {"cel": {"expression": "duration('90s')"}}}, (90, 90)),
        ({"durationFrom": {"cel": {"expression": "self.metadata.annotations.delay"}}}, (90, 90)),
        ({"durationMilliseconds": 7000, "durationFrom": {"jq": {"expression": ".metadata.missing"}}}, (7, 7)),
    ],
)
def test_delay_of_a_stage_is_within_its_bounds(delay: Object, seconds: tuple[float, float]) -> None:
    times = {"deletionTimestamp": "2023-11-14T22:13:50Z", "past": "2023-11-14T22:13:00Z"}
    found = result(compiled(stage(delay=delay)).delay(pod(annotations={"delay": "1m30s"}, **times), NOW))
    assert seconds[0] <= round(found, 3) <= seconds[1]


def chosen(*stages: Object, annotations: dict[str, str] | None = None) -> set[str]:
    """The names of those that a hundred objects get."""
    every, moment = StageSet(map(compiled, stages)), Moment(NOW.now, random.Random(1))
    described = pod(annotations=annotations or {})
    found = [result(every.choose(described, moment, refused)) for _ in range(100)]
    return {one.name for one in found if one is not None}


def test_weights_choose_among_those_that_match() -> None:
    none = expression(".status.phase", "In", "Failed")
    assert chosen(stage("a", selector=none)) == set()
    assert chosen(stage("a"), stage("b"), stage("c", selector=none)) == {"a", "b"}
    assert chosen(stage("a", weight=1), stage("b", weight=0)) == {"a"}
    assert chosen(stage("a", weight=1), stage("b", weight=3)) == {"a", "b"}
    weighed = stage("b", weight=5, weightFrom={"expressionFrom": ".metadata.annotations.weight"})
    assert chosen(stage("a"), weighed, annotations={"weight": "0"}) == {"a", "b"}
    assert chosen(stage("a"), weighed, annotations={"weight": "7"}) == {"b"}
    assert chosen(stage("a"), weighed, annotations={"weight": "many"}) == {"a"}


@cases(
    "spec, named",
    [
        ({"selector": cel("self.")}, "spec.selector.matchExpressions: .*Syntax error"),
        ({"delay": {"durationFrom": {"cel": {"expression": "x"}}}}, "spec.delay.durationFrom: .*undeclared"),
        ({"selector": expression(".a", "Near")}, "'Near' is none of"),
        ({"selector": expression(".a", "In")}, "In needs values"),
        ({"selector": expression(".a |", "Exists")}, "ends too early"),
        ({"next": {"statusTemplate": "{{ if }}"}}, "spec.next.statusTemplate"),
        ({"steps": [{"exec": {"command": []}}]}, "exec is not supported"),
        ({"steps": [{"apply": {"template": "", "type": "json"}}]}, "'json' is none of apply, merge"),
        ({"next": {"patches": [{"template": "", "type": "diff"}]}}, "'diff' is none of"),
    ],
)
def test_what_is_not_supported_is_named(spec: Object, named: str) -> None:
    with pytest.raises(StageError, match=named):
        compiled(stage(**spec))


@cases(
    "patch_format, rendered, wrong",
    [
        ("json", {"op": "add", "path": "/a"}, "a list of operations"),
        ("json", ["add"], "a list of operations"),
        ("json", [{"op": "add", "path": 7}], "path must be a string"),
        ("merge", ["add"], "a merge patch has to be an object"),
        ("strategic", "Running", "a strategic patch has to be an object"),
        ("merge", {1: "a"}, "JSON cannot say"),
    ],
)
def test_patch_that_a_template_cannot_mean_is_refused(patch_format: str, rendered: Any, wrong: str) -> None:
    patch = StagePatch(Template(""), "status", "status", patch_format)
    with pytest.raises(StageError, match=wrong):
        patch.document(rendered)


def test_patch_is_made_below_its_root() -> None:
    operation = {"op": "add", "path": "/phase", "value": "Running"}
    under = StagePatch(Template(""), "status", "status", "json")
    assert under.document([operation]) == [{**operation, "path": "/status/phase"}]
    assert under.document(None) == {}
    assert StagePatch(Template("")).document({"phase": "Running"}) == {"status": {"phase": "Running"}}


def test_finalizers_are_added_and_removed() -> None:
    added, removed = [{"value": "a"}, {"value": "b"}], [{"value": "x"}]
    assert changed_finalizers(["x", "a"], {"add": added, "remove": removed}) == ["a", "b"]
    assert changed_finalizers(["x"], {"empty": True}) == []


READY = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) .metadata.uid .metadata.name | Quote }}
conditions:
- type: Ready
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""
LIVES = (
    stage(
        "pod-ready",
        selector=expression(".status.phase", "In", "Pending"),
        delay={"durationMilliseconds": 60_000},
        next={
            "event": {"type": "Normal", "reason": "Started", "message": "by a stage"},
            "finalizers": {"add": [{"value": "kwok.x-k8s.io/fake"}]},
            "statusTemplate": READY,
        },
    ),
    stage(
        "pod-free",
        selector=expression(".metadata.deletionTimestamp", "Exists"),
        next={"finalizers": {"empty": True}, "delete": True},
    ),
)


@pytest.mark.rewound(nodes=3, mode="in-process")
def test_stages_move_pods_on_instead_of_annotations(rewound: Rewound) -> None:
    for one in LIVES:
        rewound.request("POST", STAGES, one)
    rewound.advance(1)  # the nodes know the stages then
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}
    rewound.request(
        "POST", PODS, {"metadata": {"name": "p", "annotations": {"sim/phase": "Failed"}}, "spec": spec}
    )
    rewound.advance(20)
    assert rewound.request("GET", f"{PODS}/p")["status"]["phase"] == "Pending"
    rewound.advance(41)
    found = rewound.request("GET", f"{PODS}/p")
    status = found["status"]
    assert (status["phase"], status["hostIP"]) == ("Running", "192.168.0.2")
    assert status["podIP"].startswith("10.244.") and status["containerStatuses"][0]["ready"]
    assert found["metadata"]["finalizers"] == ["kwok.x-k8s.io/fake"]
    rewound.request("DELETE", f"{PODS}/p")
    rewound.advance(1)
    assert rewound.request("GET", PODS)["items"] == []
    events = rewound.request("GET", "/api/v1/events")["items"]
    said = {(event["reason"], event["message"]) for event in events}
    assert ("Started", "by a stage") in said


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_pod_has_one_address_however_often_a_stage_asks_for_it(rewound: Rewound) -> None:
    refused = "podIP: {{ PodIP }}\nphase: 7"
    taken = "podIP: {{ PodIPWith .spec.nodeName }}\npodIPs: [{ip: {{ PodIP }}}]\nphase: Running"
    rewound.request("POST", STAGES, stage("go", next={"statusTemplate": refused}))
    rewound.advance(1)
    spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}
    for number in range(3):  # each is a try
        rewound.request("POST", PODS, {"metadata": {"name": f"p{number}"}, "spec": spec})
        rewound.advance(1)
    for number in range(3):
        pod = rewound.request("GET", f"{PODS}/p{number}")
        rewound.request(
            "PUT", f"{PODS}/p{number}", {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}}
        )
        rewound.advance(1)
    events = rewound.request("GET", "/api/v1/events")["items"]
    assert any("the patch was refused" in event["message"] for event in events)
    good = rewound.request("GET", f"{STAGES}/go")
    good["spec"]["next"] = {"statusTemplate": taken}
    good["spec"]["selector"] = expression(".status.phase", "In", "Pending")
    rewound.request("PUT", f"{STAGES}/go", good)
    rewound.advance(1)
    statuses = [rewound.request("GET", f"{PODS}/p{number}")["status"] for number in range(3)]
    assert [one["podIP"] for one in statuses] == ["10.244.0.1", "10.244.0.2", "10.244.0.3"]
    assert all(one["podIPs"] == [{"ip": one["podIP"]}] for one in statuses)


GROWS = (
    '{{ $s := "xxxxxxxxxxxxxxxx" }}'
    + 9 * '{{ $s = replace "x" "xxxxxxxxxxxxxxxx" $s }}'
    + "message: {{ $s }}"
)
ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join(9 * [f'*a{number - 1}'])}]\n" for number in range(1, 12)
)
HOSTILE = {
    "Grows": (stage("grows", next={"statusTemplate": GROWS}), "too large values"),
    "Aliases": (stage("aliases", next={"statusTemplate": ALIASES}), "made too large a document"),
    "Query": (
        stage("query", selector=expression('"x"' + 60 * " | . + .", "Exists")),
        "has too many steps, or too large values",
    ),
}


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_hostile_stages_are_named_in_events_and_the_server_continues(rewound: Rewound) -> None:
    spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}
    for name, (one, reason) in HOSTILE.items():
        selector = one["spec"]["selector"]
        one["spec"]["selector"] = {"matchLabels": {"for": name}, **selector}
        rewound.request("POST", STAGES, one)
        rewound.advance(1)
        metadata = {"name": name.lower(), "labels": {"for": name}}
        rewound.request("POST", PODS, {"metadata": metadata, "spec": spec})
        rewound.advance(1)
        events = rewound.request("GET", "/api/v1/events")["items"]
        said = [
            event["message"]
            for event in events
            if (event["reason"], event["involvedObject"]["name"]) == ("InvalidStage", name.lower())
        ]
        assert any(reason in message and f"stage {name.lower()}: " in message for message in said), (
            name,
            said,
        )


@pytest.mark.rewound(nodes=1, mode="in-process")
def test_stage_that_is_too_large_is_named(rewound: Rewound) -> None:
    large = stage("large", next={"statusTemplate": "phase: Running\n" + 300_000 * "#"})
    longer = stage("longer", next={"statusTemplate": "phase: Running\n" + 100_000 * "#"})
    for one in (large, longer):
        rewound.request("POST", STAGES, one)
    rewound.advance(1)
    events = rewound.request("GET", "/api/v1/events")["items"]
    said = [event["message"] for event in events if event["reason"] == "InvalidStage"]
    assert any("at most 262144 are allowed" in message for message in said), said
    assert any("spec.next.statusTemplate: it has 100015 characters" in message for message in said), said
