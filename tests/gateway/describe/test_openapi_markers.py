"""Extensions for patches and apply, with the prefix of the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import NAMES
from tests.gateway.describe.reader import Reader, version_2


@pytest.fixture(params=sorted(NAMES))
def marked(request: pytest.FixtureRequest) -> Any:
    """(type, field) -> extensions without their prefix."""
    dialect = request.param
    prefix = NAMES[dialect].extension_prefix
    definitions = Reader(version_2(dialect)).definitions

    def of(type_: str, field: str = "") -> dict[str, Any]:
        (found,) = (one for title, one in definitions.items() if title.endswith(f".{type_}"))
        schema = found["properties"][field] if field else found
        return {name.removeprefix(prefix): value for name, value in schema.items() if name.startswith("x-")}

    return of


def test_map_lists_have_their_keys(marked: Any) -> None:
    assert marked("core.v1.Container", "ports") == {
        "list-type": "map",
        "list-map-keys": ["containerPort", "protocol"],
        "patch-strategy": "merge",
        "patch-merge-key": "containerPort",
    }


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_list_of_storage_capacities_has_its_key(marked: Any, version: str) -> None:
    keyed = {"list-type": "map", "list-map-keys": ["name"]}
    assert marked(f"storage.{version}.CSIStorageCapacityList", "items") == keyed
    assert marked("storage.v1.StorageClassList", "items") == {}


def test_set_lists_and_atomic_lists_have_their_type(marked: Any) -> None:
    assert marked("core.v1.PodSecurityContext", "supplementalGroups") == {}
    assert marked("storage.v1.CSIDriverSpec", "volumeLifecycleModes") == {"list-type": "set"}
    assert marked("storage.v1.CSIDriverSpec", "tokenRequests") == {"list-type": "atomic"}


def test_atomic_maps_have_their_type(marked: Any) -> None:
    assert marked("core.v1.ServiceSpec", "selector") == {"map-type": "atomic"}
    assert marked("meta.v1.LabelSelector") == {"map-type": "atomic"}


def test_retain_keys_is_a_patch_strategy(marked: Any) -> None:
    assert marked("apps.v1.DeploymentSpec", "strategy") == {"patch-strategy": "retainKeys"}
    assert marked("core.v1.PodSpec", "volumes") == {
        "patch-strategy": "merge,retainKeys",
        "patch-merge-key": "name",
    }


def test_unions_have_their_discriminator(marked: Any) -> None:
    (union,) = marked("flowcontrol.v1beta2.Subject")["unions"]
    assert union == {
        "discriminator": "kind",
        "fields-to-discriminateBy": {"user": "User", "group": "Group", "serviceAccount": "ServiceAccount"},
    }
    (union,) = marked("core.v1.SeccompProfile")["unions"]
    assert union == {
        "discriminator": "type",
        "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"},
    }


def test_kinds_have_group_version_kind(marked: Any) -> None:
    assert marked("apps.v1.Deployment")["group-version-kind"] == [
        {"group": "apps", "version": "v1", "kind": "Deployment"}
    ]
    assert marked("apps.v1.DeploymentList")["group-version-kind"][0]["kind"] == "DeploymentList"
    assert "group-version-kind" not in marked("apps.v1.DeploymentSpec")


def test_delete_options_and_watch_events_are_of_every_group_version_that_has_types(marked: Any) -> None:
    for kind in ("DeleteOptions", "WatchEvent"):
        listed = marked(f"meta.v1.{kind}")["group-version-kind"]
        assert {one["kind"] for one in listed} == {kind} and len(listed) == 53
        assert listed == sorted(listed, key=lambda one: (one["group"], one["version"]))
        for group, version in (("", "v1"), ("apps", "v1beta2"), ("extensions", "v1beta1")):
            assert {"group": group, "version": version, "kind": kind} in listed
