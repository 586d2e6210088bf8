"""A StorageVersionMigration writes custom objects again, and then only one version is stored."""

from __future__ import annotations

from typing import Any

from rewound import start

FLAGS = (
    "--feature-gates=StorageVersionMigrator=true",
    "--runtime-config=storagemigration.k8s.io/v1beta1=true",
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def definition() -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


def without_times(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: one[key] for key in one if key != "lastTransitionTime"} for one in conditions]


def test_objects_of_an_earlier_version_are_stored_in_the_current_one() -> None:
    with (
        start(mode="in-process", kubernetes="1.36", flags=FLAGS) as server,
        server.client("in-process") as client,
    ):
        created = client.post(DEFINITIONS, json=definition())
        assert created.status_code == 201, created.text
        server.advance(3)
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "old"}}
        assert client.post(THINGS, json=thing).status_code == 201
        changed = client.get(f"{DEFINITIONS}/things.example.com").json()
        for version in changed["spec"]["versions"]:
            version["storage"] = version["name"] == "v2"
        assert client.put(f"{DEFINITIONS}/things.example.com", json=changed).status_code == 200
        server.advance(3)
        before = client.get(f"{THINGS}/old").json()["metadata"]["resourceVersion"]
        for name, resource in (
            ("first", {"group": "example.com", "resource": "things"}),
            ("refused", {"group": "", "resource": "bindings"}),
            ("unknown", {"group": "", "resource": "nosuch"}),
        ):
            migration = {"metadata": {"name": name}, "spec": {"resource": resource}}
            assert client.post(MIGRATIONS, json=migration).status_code == 201
        server.advance(70)
        found = {
            one["metadata"]["name"]: without_times(one["status"]["conditions"])
            for one in client.get(MIGRATIONS).json()["items"]
        }
        ended = {"type": "Running", "status": "False", "reason": "MigrationCompleted"}
        ended |= {"message": "Migration completed"}
        failed = {"type": "Failed", "status": "True", "reason": "StorageVersionMigrationFailed"}
        verbs = 'resource "/v1, Resource=bindings" does not support discovery operations: [update patch list]'
        succeeded = {"type": "Succeeded", "status": "True", "reason": "StorageVersionMigrationSucceeded"}
        assert found == {
            "first": [ended, {**succeeded, "message": ""}],
            "refused": [ended, {**failed, "message": verbs}],
            "unknown": [ended, {**failed, "message": "resource does not exist in discovery"}],
        }
        assert client.get(f"{THINGS}/old").json()["metadata"]["resourceVersion"] != before
        status = client.get(f"{DEFINITIONS}/things.example.com").json()["status"]
        assert status["storedVersions"] == ["v2"]
        (migrated,) = (one for one in status["conditions"] if one["type"] == "StorageMigrating")
        text = "The migration has succeeded and the stored versions have been updated"
        assert (migrated["status"], migrated["message"]) == ("False", text)
