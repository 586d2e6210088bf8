"""Pod: volume mounts and volume devices."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, create_causes
from tests.cases import cases

VOLUMES = [
    {"name": "v", "emptyDir": {}},
    {"name": "w", "emptyDir": {}},
    {"name": "p", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "q", "persistentVolumeClaim": {"claimName": "d"}},
    {"name": "bad", "hostPath": {"path": ""}},
]


def mount_causes(
    kinds: Definitions, mounts: Any = (), devices: Any = (), **context: Any
) -> list[tuple[str, str]]:
    container = {**CONTAINER, "volumeMounts": list(mounts), "volumeDevices": list(devices), **context}
    causes = create_causes(kinds, volumes=VOLUMES, containers=[container])
    assert causes.pop(0) == ("spec.volumes[4].hostPath.path", "Required value")
    return [(field.removeprefix("spec.containers[0]."), text) for field, text in causes]


@cases(
    ("mount", "causes"),
    [
        ({"name": "v", "mountPath": "/v"}, []),
        ({"name": "v", "mountPath": "rel", "subPath": "a/b", "readOnly": True}, []),
        ({"name": "v", "mountPath": "/v", "subPathExpr": "$(A)/b", "mountPropagation": "None"}, []),
        ({"name": "x", "mountPath": "/v"}, [("[0].name", 'Not found: "x"')]),
        ({"name": "bad", "mountPath": "/v"}, [("[0].name", 'Not found: "bad"')]),
        (
            {},
            [
                ("[0].name", "Required value"),
                ("[0].name", 'Not found: ""'),
                ("[0].mountPath", "Required value"),
            ],
        ),
        (
            {"name": "v", "mountPath": "/v", "subPath": "/a"},
            [(".subPath", 'Invalid value: "/a": must be a relative path')],
        ),
        (
            {"name": "v", "mountPath": "/v", "subPathExpr": "../a"},
            [(".subPathExpr", "Invalid value: \"../a\": must not contain '..'")],
        ),
        (
            {"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"},
            [
                (
                    "[0].subPathExpr",
                    'Invalid value: "b": subPathExpr and subPath are mutually exclusive',
                )
            ],
        ),
        (
            {"name": "v", "mountPath": "/v", "mountPropagation": "Up"},
            [
                (
                    ".mountPropagation",
                    'Unsupported value: "Up": supported values: "Bidirectional", "HostToContainer", "None"',
                )
            ],
        ),
        (
            {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"},
            [
                (
                    ".mountPropagation",
                    "Forbidden: Bidirectional mount propagation is available only to privileged containers",
                )
            ],
        ),
    ],
)
def test_mount_fields_are_validated(kinds: Definitions, mount: Any, causes: list[tuple[str, str]]) -> None:
    assert mount_causes(kinds, [mount]) == [(f"volumeMounts{field}", text) for field, text in causes]


def test_privileged_containers_may_use_bidirectional_propagation(kinds: Definitions) -> None:
    mount = {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}
    assert mount_causes(kinds, [mount], securityContext={"privileged": True}) == []


def test_mount_paths_are_unique(kinds: Definitions) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v"}]
    assert mount_causes(kinds, mounts) == [
        ("volumeMounts[1].mountPath", 'Invalid value: "/v": must be unique')
    ]
    twice = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w"}]
    assert mount_causes(kinds, twice) == []


@cases(
    ("device", "causes"),
    [
        ({"name": "p", "devicePath": "/dev/p"}, []),
        (
            {"name": "v", "devicePath": "/dev/v"},
            [
                (
                    "name",
                    'Invalid value: "v": can only use volume source type of PersistentVolumeClaim or '
                    "Ephemeral for block mode",
                )
            ],
        ),
        ({"name": "x", "devicePath": "/dev/x"}, [("name", 'Not found: "x"')]),
        (
            {},
            [
                ("name", "Required value"),
                ("name", 'Not found: ""'),
                ("devicePath", "Required value"),
            ],
        ),
        (
            {"name": "p", "devicePath": "/a/../b"},
            [("devicePath", "Invalid value: \"/a/../b\": can not contain backsteps ('..')")],
        ),
    ],
)
def test_device_fields_are_validated(kinds: Definitions, device: Any, causes: list[tuple[str, str]]) -> None:
    assert mount_causes(kinds, [], [device]) == [
        (f"volumeDevices[0].{field}", text) for field, text in causes
    ]


def test_device_names_and_paths_are_unique(kinds: Definitions) -> None:
    devices = [{"name": "p", "devicePath": "/p"}, {"name": "p", "devicePath": "/p"}]
    assert mount_causes(kinds, [], devices) == [
        ("volumeDevices[1].name", 'Invalid value: "p": must be unique'),
        ("volumeDevices[1].devicePath", 'Invalid value: "/p": must be unique'),
    ]


def test_volumes_and_paths_are_mounts_or_devices_but_not_both(kinds: Definitions) -> None:
    mounts = [{"name": "p", "mountPath": "/p"}, {"name": "v", "mountPath": "/q"}]
    devices = [{"name": "p", "devicePath": "/x"}, {"name": "q", "devicePath": "/q"}]
    assert mount_causes(kinds, mounts, devices) == [
        ("volumeMounts[0].name", 'Invalid value: "p": must not already exist in volumeDevices'),
        (
            "volumeMounts[1].mountPath",
            'Invalid value: "/q": must not already exist as a path in volumeDevices',
        ),
        ("volumeDevices[0].name", 'Invalid value: "p": must not already exist in volumeMounts'),
        (
            "volumeDevices[1].devicePath",
            'Invalid value: "/q": must not already exist as a path in volumeMounts',
        ),
    ]
