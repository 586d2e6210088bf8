"""The hash of a pod template equals that of v1.25: names of ReplicaSets created elsewhere stay valid."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.kinds.core.pod_template import POD_TEMPLATE_SPEC
from rewound.actors.kinds.schema.fields import BOOL, TIME, ListOf, MapOf, Struct, Type
from rewound.actors.kinds.schema.projection import structs_of
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import exhausted
from rewound.actors.versions.features import choose_release
from rewound.actors.workloads.template_hash import go_text, template_hash

PLAIN: Object = {
    "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "app:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}
RICH: Object = {
    "metadata": {"labels": {"b": "2", "a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "app",
                "resources": {
                    "limits": {"cpu": "500m", "memory": "1536Mi"},
                    "requests": {
                        "cpu": "0",
                        "memory": "1.5Gi",
                        "example.com/gpu": "2",
                        "ephemeral-storage": "12e6",
                    },
                },
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 10},
            },
            {"name": "d", "livenessProbe": {"tcpSocket": {"port": 80}}},
        ],
        "volumes": [
            {"name": "v", "configMap": {"name": "m", "defaultMode": 420}},
            {"name": "e", "emptyDir": {"sizeLimit": "7Ei"}},
        ],
        "nodeSelector": {"z": "1", "é": "2"},
        "securityContext": {"runAsNonRoot": False, "fsGroup": 0},
    },
}
# Quantities that Go's fast parser leaves to the slow one.
LARGE: Object = {
    "spec": {
        "containers": [
            {
                "name": "c",
                "resources": {
                    "requests": {
                        "cpu": "-1",
                        "memory": "16Ei",
                        "a": "0.1n",
                        "b": "1000000000000000000000",
                        "c": "1e3",
                    }
                },
            }
        ]
    }
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [(PLAIN, "584f96994"), (RICH, "5655dfcb7"), (LARGE, "7b57cdc58c")],
    ids=["plain", "rich", "large"],
)
def test_hashes_are_those_of_v1_25(template: Object, expected: str) -> None:
    assert exhausted(template_hash(template)) == expected


def test_collisions_change_the_hash() -> None:
    assert exhausted(template_hash(PLAIN, 1)) == "59bd64f795"
    assert exhausted(template_hash(PLAIN, 0)) != exhausted(template_hash(PLAIN))


def test_every_field_of_a_template_is_part_of_the_hash() -> None:
    written: list[str] = []
    text = go_text(_filled(structs_of("1.25").project(POD_TEMPLATE_SPEC), written))
    assert len(written) > 400
    assert [one for one in written if one not in text] == []


def _filled(declared: Type, written: list[str]) -> Any:
    """A value with all fields of a type; `written` gets what the text of it must contain."""
    if isinstance(declared, Struct):
        named = [field for field in declared.fields if field.name not in ("managedFields", "selfLink")]
        return {field.name: _filled(field.type, written) for field in named if field.type is not TIME}
    if isinstance(declared, ListOf):
        return [_filled(declared.item, written)]
    if isinstance(declared, MapOf):
        return {"key": _filled(declared.value, written)}
    if declared is BOOL:
        return True
    number = 1_000_001 + 2 * len(written)
    written.append(str(number))
    return number if declared.name in ("int32", "int64") else str(number)


def test_text_has_fields_that_are_not_set() -> None:
    assert go_text({}).startswith("{ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) ")


def test_versions_have_their_own_hashes() -> None:
    """As recorded with Kubernetes 1.36: every field that a version adds is in the text."""
    assert exhausted(template_hash(PLAIN, release=choose_release("1.36"))) == "68b4fdb489"
    assert "SchedulingGates:" not in go_text(PLAIN)
    assert "SchedulingGates:" in go_text(PLAIN, choose_release("1.26"))
    later = choose_release("1.36")
    assert "WorkloadRef:" in go_text(PLAIN, choose_release("1.35")) and "WorkloadRef:" not in go_text(
        PLAIN, later
    )
