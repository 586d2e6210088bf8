"""Stateful sets and other workloads of later versions: names, what updates may change, and warnings."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions, create, replace
from tests.actors.kinds.workload import template, workload

NEWEST = "1.36"


@cache
def kinds(version: str) -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version)))


def stateful_set(**spec: Any) -> dict[str, Any]:
    return workload(template=template(), serviceName="s", **spec)


@pytest.mark.parametrize(
    ("version", "spec", "refused"),
    [
        ("1.32", {"serviceName": "a.b"}, 0),
        ("1.33", {"serviceName": "a.b"}, 1),
        (NEWEST, {"ordinals": {"start": -1}}, 1),
        ("1.33", {"template": template(containers=[{"name": "c"}])}, 0),
        (NEWEST, {"template": template(containers=[{"name": "c"}])}, 1),
    ],
)
def test_rules_of_stateful_sets(version: str, spec: dict[str, Any], refused: int) -> None:
    document = stateful_set()
    document["spec"] = {**document["spec"], **spec}
    assert len(kinds(version).create_causes("statefulsets", document)) == refused


def test_names_of_stateful_sets_are_labels() -> None:
    document = stateful_set()
    document["metadata"] = {**document["metadata"], "name": "a.b"}
    assert kinds("1.26").create_causes("statefulsets", document) == []
    assert kinds("1.27").create_causes("statefulsets", document) == [
        ("metadata.name", 'Invalid value: "a.b": must not contain dots')
    ]


@pytest.mark.parametrize(("version", "refused"), [("1.32", 1), ("1.33", 0)])
def test_history_limit_of_stateful_sets_may_change(version: str, refused: int) -> None:
    definition = kinds(version)["statefulsets"]
    old = kinds(version).stored("statefulsets", stateful_set())
    new = {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], "revisionHistoryLimit": 3}}
    _, causes = replace(definition, new, old)
    assert len(causes) == refused


@pytest.mark.parametrize(("version", "times"), [("1.33", 2), ("1.34", 1)])
def test_updates_of_daemon_sets_are_validated_once(version: str, times: int) -> None:
    old = kinds(version).stored("daemonsets", workload(template=template()))
    new = {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], "minReadySeconds": -1}}
    _, causes = replace(kinds(version)["daemonsets"], new, old)
    assert len(causes) == times


def warnings(version: str, **spec: Any) -> list[str]:
    found = kinds(version)
    stored = found.stored("pods", {"metadata": {"name": "a"}, "spec": spec})
    warn = found["pods"].strategy.warnings
    assert warn is not None
    return warn(stored, None)


def test_warnings_of_pods() -> None:
    env = [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    container = {"name": "c", "image": "i:1", "env": env}
    assert warnings("1.27", containers=[container]) == ['spec.containers[0].env[1].name: duplicate name "a"']
    assert warnings(NEWEST, containers=[container]) == [
        'spec.containers[0].env[1]: hides previous definition of "a", which may be dropped when using apply'
    ]
    ports = [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "hostPort": 1, "name": "a"}]
    assert warnings(NEWEST, containers=[{"name": "c", "image": "i:1", "ports": ports}])[0] == (
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]"
    )
    volume = {
        "name": "v",
        "configMap": {"name": "m", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]},
    }
    plain = [{"name": "c", "image": "i:1"}]
    assert warnings("1.31", containers=plain, volumes=[volume]) == []
    assert warnings(NEWEST, containers=plain, volumes=[volume]) == [
        'volume "v" (ConfigMap "m"): overlapping paths: "x/y" with "x"'
    ]


def test_texts_about_labels() -> None:
    document = {"metadata": {"name": "a", "labels": {"k": "v" * 64}}}
    for version, unit in (("1.34", "characters"), (NEWEST, "bytes")):
        (cause,) = kinds(version).create_causes("configmaps", document)
        assert cause[1].endswith(f"must be no more than 63 {unit}")


@pytest.mark.parametrize(("version", "kept"), [("1.30", False), ("1.32", True)])
def test_managers_of_jobs_are_dropped_on_create_alone(version: str, kept: bool) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"template": template(restartPolicy="Never")}}
    document["spec"]["managedBy"] = "example.com/a"
    jobs = kinds(version)["jobs"]
    stored, _ = create(jobs, jobs.schema.decode_object(document).object)
    assert ("managedBy" in stored["spec"]) is kept
    sent = {**stored, "spec": {**stored["spec"], "managedBy": "example.com/b"}}
    _, causes = replace(jobs, sent, stored)
    assert [field for field, *_ in causes] == ["spec.managedBy"]
