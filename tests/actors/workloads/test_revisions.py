"""ControllerRevisions have the data and the hashes of v1.25."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.steps import exhausted
from rewound.actors.workloads.revisions import (
    holds,
    in_order,
    restored,
    revision_name,
    snapshot,
    snapshot_hash,
)
from tests.cases import cases

DEFINITION = built_in(KUBERNETES).storage("statefulsets.apps")


def stateful_set(template: Object, name: str = "db") -> Object:
    spec = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    return DEFINITION.schema.decode_object({"metadata": {"name": name}, "spec": spec}).object


def template(*containers: Object, **metadata: Any) -> Object:
    return {"metadata": {"labels": {"app": "db"}, **metadata}, "spec": {"containers": list(containers)}}


RICH = {
    "metadata": {"labels": {"app": "db"}, "annotations": {"note": "a < b & c"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "c",
                "image": "app:1",
                "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"port": "http"}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


@cases(
    ("described", "collisions", "expected"),
    [
        (template({"name": "c", "image": "app:1"}), 0, "584c77b646"),
        (template({"name": "c", "image": "app:2"}), 0, "576698d9f5"),
        (RICH, 0, "6b48bb5994"),
        (RICH, 12, "68f9557f79"),
    ],
)
def test_hash_of_a_snapshot(described: Object, collisions: int, expected: str) -> None:
    assert exhausted(snapshot_hash(snapshot(stateful_set(described)), collisions)) == expected


def test_data_is_sorted_and_escaped_as_go_does() -> None:
    data = snapshot(stateful_set(RICH))
    assert data.startswith(b'{"spec":{"template":{"$patch":"replace","metadata":{"annotations":')
    assert rb'"a \u003c b \u0026 c"' in data and b'"creationTimestamp":null' in data
    assert b'"cpu":"500m","memory":"1Gi"' in data


def test_revision_holds_the_same_bytes_only() -> None:
    data = snapshot(stateful_set(RICH))
    kept = {"spec": {"template": {"$patch": "replace", **sorted_members(stateful_set(RICH))}}}
    assert holds({"data": kept}, data)
    turned = {"spec": {"template": dict(reversed(kept["spec"]["template"].items()))}}
    assert turned == kept and not holds({"data": turned}, data)


def sorted_members(owner: Object) -> Object:
    def arranged(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: arranged(value[name]) for name in sorted(value)}
        return [arranged(item) for item in value] if isinstance(value, list) else value

    return dict(arranged(owner["spec"]["template"]))


def test_restored_owner_has_the_template_of_the_revision() -> None:
    old, new = stateful_set(RICH), stateful_set(template({"name": "d", "image": "app:2"}))
    revision = {"data": {"spec": {"template": {"$patch": "replace", **old["spec"]["template"]}}}}
    assert restored(DEFINITION, new, revision)["spec"]["template"] == old["spec"]["template"]
    assert new["spec"]["template"]["spec"]["containers"][0]["name"] == "d"


def test_order_is_by_number_then_age_then_name() -> None:
    def revision(name: str, number: int, created: str) -> Object:
        return {"metadata": {"name": name, "creationTimestamp": created}, "revision": number}

    given = [revision("b", 2, "1"), revision("a", 2, "2"), revision("c", 1, "3"), revision("a", 2, "1")]
    assert in_order(given) == [given[2], given[3], given[0], given[1]]


def test_long_name_is_cut_so_that_the_hash_fits() -> None:
    owner = {"metadata": {"name": "x" * 253}}
    assert revision_name(owner, "h" * 10) == "x" * 223 + "-" + "h" * 10
