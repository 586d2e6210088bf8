"""Pod: volumes of keys, fields and tokens."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import create_causes, volume_causes
from tests.cases import cases

MODE = "must be a number between 0 and 0777 (octal), both inclusive"
FIELD = {"fieldPath": "metadata.name"}
KEYS = [("secret", {"secretName": "s"}), ("configMap", {"name": "m"})]


@cases(("kind", "source"), KEYS)
def test_secret_and_config_map_need_a_name(kinds: Definitions, kind: str, source: dict[str, str]) -> None:
    assert volume_causes(kinds, **{kind: {**source, "optional": True, "defaultMode": 0o777}}) == []
    (name,) = source
    assert volume_causes(kinds, **{kind: {}}) == [(f"{kind}.{name}", "Required value")]


@cases(
    "source",
    [
        {"secret": {"secretName": "s"}},
        {"configMap": {"name": "m"}},
        {"downwardAPI": {}},
        {"projected": {"sources": []}},
    ],
)
@cases("mode", [-1, 0o1000])
def test_file_modes_are_validated(kinds: Definitions, source: dict[str, Any], mode: int) -> None:
    ((kind, parts),) = source.items()
    assert volume_causes(kinds, **{kind: {**parts, "defaultMode": mode}}) == [
        (f"{kind}.defaultMode", f"Invalid value: {mode}: {MODE}")
    ]


@cases(("kind", "source"), KEYS)
@cases(
    ("item", "causes"),
    [
        ({"key": "k", "path": "a/b", "mode": 0}, []),
        ({"key": "", "path": ""}, [("key", "Required value"), ("path", "Required value")]),
        ({"key": "k", "path": "/a"}, [("path", 'Invalid value: "/a": must be a relative path')]),
        ({"key": "k", "path": "a/.."}, [("path", "Invalid value: \"a/..\": must not contain '..'")]),
        ({"key": "k", "path": "..a"}, [("path", "Invalid value: \"..a\": must not start with '..'")]),
        (
            {"key": "k", "path": ".."},
            [
                ("path", "Invalid value: \"..\": must not contain '..'"),
                ("path", "Invalid value: \"..\": must not start with '..'"),
            ],
        ),
        ({"key": "k", "path": "p", "mode": 512}, [("mode", f"Invalid value: 512: {MODE}")]),
    ],
)
def test_items_are_validated(
    kinds: Definitions, kind: str, source: Any, item: Any, causes: list[tuple[str, str]]
) -> None:
    expected = [(f"{kind}.items[0].{field}", text) for field, text in causes]
    assert volume_causes(kinds, **{kind: {**source, "items": [item]}}) == expected
    # Both are called `name` where several sources are projected into one volume.
    projected = {"sources": [{kind: {"name": "n", "items": [item]}}]}
    expected = [(f"projected.sources[0].{field}", text) for field, text in expected]
    assert volume_causes(kinds, projected=projected) == expected


@cases(
    ("file", "causes"),
    [
        ({"path": "p", "fieldRef": {"fieldPath": "metadata.annotations['a']"}}, []),
        ({"path": "p", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory"}}, []),
        ({"fieldRef": FIELD}, [(".path", "Required value")]),
        ({"path": "..x", "fieldRef": FIELD}, [(".path", "Invalid value: \"..x\": must not start with '..'")]),
        (
            {"path": "p", "fieldRef": FIELD, "mode": -1},
            [(".mode", f"Invalid value: -1: {MODE}")],
        ),
        ({"path": "p"}, [("", "Required value: one of fieldRef and resourceFieldRef is required")]),
        (
            {"path": "p", "fieldRef": FIELD, "resourceFieldRef": {"resource": "limits.cpu"}},
            [
                (
                    "",
                    'Invalid value: "resource": fieldRef and resourceFieldRef can not be specified '
                    "simultaneously",
                )
            ],
        ),
        (
            {"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}},
            [(".resourceFieldRef.containerName", "Required value")],
        ),
        (
            {"path": "p", "fieldRef": {"fieldPath": "spec.nodeName"}},
            [
                (
                    ".fieldRef.fieldPath",
                    'Unsupported value: "spec.nodeName": supported values: "metadata.annotations", '
                    '"metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"',
                )
            ],
        ),
    ],
)
def test_downward_api_files_are_validated(
    kinds: Definitions, file: Any, causes: list[tuple[str, str]]
) -> None:
    volume = {"items": [file]}
    expected = [(f"downwardAPI{field}", text) for field, text in causes]
    assert volume_causes(kinds, downwardAPI=volume) == expected
    expected = [(f"projected.sources[0].{field}", text) for field, text in expected]
    assert volume_causes(kinds, projected={"sources": [{"downwardAPI": volume}]}) == expected


def test_projected_secret_and_config_map_need_a_name(kinds: Definitions) -> None:
    sources = [{"secret": {}}, {"configMap": {}}]
    assert volume_causes(kinds, projected={"sources": sources}) == [
        ("projected.sources[0].secret.name", "Required value"),
        ("projected.sources[1].configMap.name", "Required value"),
    ]


def test_projection_has_one_source(kinds: Definitions) -> None:
    sources = [{"secret": {"name": "s"}, "configMap": {"name": "m"}}]
    assert volume_causes(kinds, projected={"sources": sources}) == [
        ("projected.sources[0]", "Forbidden: may not specify more than 1 volume type")
    ]


def test_projected_paths_are_unique(kinds: Definitions) -> None:
    items = [{"key": "k", "path": "p"}]
    sources = [
        {"secret": {"name": "s", "items": items}},
        {"configMap": {"name": "m", "items": items}},
        {"downwardAPI": {"items": [{"path": "p", "fieldRef": FIELD}]}},
    ]
    text = "conflicting duplicate paths"
    assert volume_causes(kinds, projected={"sources": sources}) == [
        ("projected", f'Invalid value: "m": {text}'),
        ("projected", f'Invalid value: "p": {text}'),
    ]


@cases(
    ("token", "causes"),
    [
        ({"path": "t", "audience": "a"}, []),
        ({"path": "t", "expirationSeconds": 600}, []),
        (
            {"path": "t", "expirationSeconds": 599},
            [
                (
                    "sources[0].serviceAccountToken.expirationSeconds",
                    "Invalid value: 599: may not specify a duration less than 10 minutes",
                )
            ],
        ),
        (
            {"path": "t", "expirationSeconds": 2**32 + 1},
            [
                (
                    "sources[0].serviceAccountToken.expirationSeconds",
                    "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
                )
            ],
        ),
        ({}, [("path", "Required value")]),
    ],
)
def test_projected_tokens_are_validated(
    kinds: Definitions, token: Any, causes: list[tuple[str, str]]
) -> None:
    volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}}]
    expected = [(f"spec.volumes[0].projected.{field}", text) for field, text in causes]
    assert create_causes(kinds, volumes=volumes, serviceAccountName="x") == expected


def test_projected_token_needs_a_service_account(kinds: Definitions) -> None:
    volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    assert create_causes(kinds, volumes=volumes) == [
        (
            "spec.volumes[0].projected.sources[0].serviceAccountToken",
            "Forbidden: must not be specified when serviceAccountName is not set",
        )
    ]
