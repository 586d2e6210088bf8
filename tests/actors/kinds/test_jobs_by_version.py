"""Jobs of later versions: their fields and defaults, the labels of their pods, and what their status may say."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Causes, Definitions, create, replace

NEWEST = "1.36"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}


@cache
def kinds(version: str) -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version)))


def created(version: str, **spec: Any) -> tuple[Object, Causes]:
    definition = kinds(version)["jobs"]
    document = {"metadata": {"name": "a"}, "spec": {"template": TEMPLATE, **spec}}
    return create(definition, definition.schema.decode_object(document).object)


INDEXED = {"completionMode": "Indexed", "completions": 5}
RULE = {"onExitCodes": {"operator": "In", "values": [1]}}
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    (NEWEST, {"backoffLimitPerIndex": 1}, "requires indexed completion mode"),
    (NEWEST, {"backoffLimitPerIndex": 1, **INDEXED}, None),
    (NEWEST, {"maxFailedIndexes": 1, **INDEXED}, "when maxFailedIndexes is specified"),
    (
        NEWEST,
        {"maxFailedIndexes": 6, "backoffLimitPerIndex": 1, **INDEXED},
        "less than or equal to completions",
    ),
    ("1.27", {"backoffLimitPerIndex": 1}, None),
    (NEWEST, {"managedBy": "me"}, "must be a domain-prefixed path"),
    (NEWEST, {"podReplacementPolicy": "Never"}, 'supported values: "Failed", "TerminatingOrFailed"'),
    (
        NEWEST,
        {"successPolicy": {"rules": []}},
        'Invalid value: {"Rules":[]}: requires indexed completion mode',
    ),
    (NEWEST, {"successPolicy": {"rules": []}, **INDEXED}, "at least one rules must be specified"),
    (
        NEWEST,
        {"successPolicy": {"rules": [{"succeededIndexes": "3-1"}]}, **INDEXED},
        "previous: 3, current: 1",
    ),
    (NEWEST, {"successPolicy": {"rules": [{"succeededIndexes": "0,7"}]}, **INDEXED}, 'too large index: "7"'),
    (
        NEWEST,
        {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}, **INDEXED},
        "must be less than or equal to 2 (the number of indexes",
    ),
    (
        NEWEST,
        {"podFailurePolicy": {"rules": [{"action": "FailIndex", **RULE}]}},
        "requires the backoffLimitPerIndex",
    ),
    (
        NEWEST,
        {"podFailurePolicy": {"rules": [{"action": "x", **RULE}]}},
        '"Count", "FailIndex", "FailJob", "Ignore"',
    ),
    ("1.27", {"podFailurePolicy": {"rules": [{"action": "x", **RULE}]}}, '"Count", "FailJob", "Ignore"'),
]


@pytest.mark.parametrize(("version", "spec", "refused"), CASES)
def test_rules_of_each_version(version: str, spec: dict[str, Any], refused: str | None) -> None:
    texts = [f"{field}: {text}" for field, text in created(version, **spec)[1]]
    if refused is None:
        assert texts == []
    else:
        assert len([text for text in texts if refused in text]) == 1, texts


def test_defaults_and_labels() -> None:
    old, new = created("1.26")[0], created(NEWEST)[0]
    assert old["spec"]["selector"] == {"matchLabels": {"controller-uid": "u-1"}}
    assert old["metadata"]["annotations"] == {"batch.kubernetes.io/job-tracking": ""}
    assert new["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert new["spec"]["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": "u-1",
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": "u-1",
        "job-name": "a",
    }
    assert "annotations" not in new["metadata"]
    assert (new["spec"]["podReplacementPolicy"], new["spec"]["manualSelector"]) == (
        "TerminatingOrFailed",
        False,
    )
    limited = created(NEWEST, backoffLimitPerIndex=1, **INDEXED)[0]
    assert limited["spec"]["backoffLimit"] == 2**31 - 1


def update(version: str, old: Object, subresource: str = "", **parts: Any) -> Causes:
    sent = {**old, "metadata": dict(old["metadata"]), **parts}
    return replace(kinds(version)["jobs"], sent, old, subresource)[1]


def test_completions_of_indexed_jobs_change_with_parallelism() -> None:
    for version, refused in (("1.26", 1), ("1.27", 0)):
        old = created(version, **INDEXED)[0]
        spec = {**old["spec"], "completions": 3, "parallelism": 3}
        assert len(update(version, old, spec=spec)) == refused
    spec = {**old["spec"], "completions": 3}
    assert [text for _, text in update("1.27", old, spec=spec)] == [
        "Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]


def condition(kind: str) -> Object:
    return {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": None}


def test_status_of_finished_jobs() -> None:
    time = "2020-01-01T00:00:00Z"
    for version, wanted in (
        (
            NEWEST,
            [
                "Required value: completionTime is required for Complete jobs",
                "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "Required value: startTime is required for finished job",
            ],
        ),
        ("1.31", []),
    ):
        old = created(version)[0]
        causes = update(version, old, "status", status={"conditions": [condition("Complete")]})
        assert [text for _, text in causes] == wanted
    done = [condition("SuccessCriteriaMet"), condition("Complete")]
    ended = {"conditions": done, "startTime": time, "completionTime": time, "succeeded": 1}
    assert update(NEWEST, old, "status", status=ended) == []
    finished = {**old, "status": ended}
    texts = [text for _, text in update(NEWEST, finished, "status", status={**ended, "succeeded": 0})]
    assert texts == ["Invalid value: 0: cannot decrease the succeeded counter"]
    texts = [text for _, text in update(NEWEST, finished, "status", status={})]
    assert "Invalid value: cannot disable the terminal Complete=True condition" in texts


@pytest.mark.parametrize(("version", "refused"), [("1.28", 0), ("1.29", 1)])
def test_time_zones_in_schedules(version: str, refused: int) -> None:
    document = {
        "metadata": {"name": "a"},
        "spec": {"schedule": "TZ=UTC 0 0 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    }
    assert len(kinds(version).create_causes("cronjobs", document)) == refused
