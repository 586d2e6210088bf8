"""Fields of disabled features in pod templates: a create drops them, an update keeps stored ones."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds import apps, batch
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from tests.actors.kinds.definitions import create, replace
from tests.actors.kinds.workload import template, workload
from tests.cases import cases

FEATURE = "UserNamespacesStatelessPodsSupport"
PLURALS = ("deployments", "replicasets", "daemonsets", "statefulsets", "jobs", "cronjobs")


def defined(names: Names, plural: str, *features: str) -> Definition:
    on = frozenset(features)
    kinds = (*apps.declare(names, on), *batch.declare(names, on))
    return next(one for one in kinds if one.plural == plural)


def document(plural: str) -> dict[str, Any]:
    pods = template(hostUsers=False, restartPolicy="Never" if "job" in plural else "Always")
    if plural == "cronjobs":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": pods}}}
        return {"metadata": {"name": "a"}, "spec": spec}
    if plural == "jobs":
        return {"metadata": {"name": "a"}, "spec": {"template": pods}}
    return workload(template=pods, serviceName="s") if plural == "statefulsets" else workload(template=pods)


def created(definition: Definition) -> dict[str, Any]:
    new, causes = create(definition, definition.schema.decode_object(document(definition.plural)).object)
    assert causes == []
    return new


def pods(stored: dict[str, Any]) -> dict[str, Any]:
    spec = stored["spec"]
    found: dict[str, Any] = spec.get("jobTemplate", stored)["spec"]["template"]["spec"]
    return found


@cases("plural", PLURALS)
def test_field_of_a_disabled_feature_is_dropped_unless_stored(names: Names, plural: str) -> None:
    off, on = defined(names, plural), defined(names, plural, FEATURE)
    assert "hostUsers" not in pods(created(off))
    with_feature = created(on)
    assert pods(with_feature)["hostUsers"] is False
    for definition, old, stays in (
        (off, created(off), False),
        (off, created(on), True),
        (on, created(off), True),
    ):
        new, _ = replace(definition, created(on), old)
        assert ("hostUsers" in pods(new)) is stays
