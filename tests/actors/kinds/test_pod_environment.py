"""Pod: environment variables with values, from fields, keys and resources, and from all keys of a source."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import SUBDOMAIN, container_causes
from tests.cases import cases

VARIABLE = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
    "must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for "
    "validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
)
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
BYTES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


@cases(
    ("name", "texts"),
    [
        ("A", []),
        ("my.env-name", []),
        ("1=bad", [VARIABLE]),
        ("..", ["must not be '..'"]),
        ("..a", ["must not start with '..'"]),
        ("../a", [VARIABLE, "must not start with '..'"]),
    ],
)
def test_variable_names_and_prefixes_are_validated(kinds: Definitions, name: str, texts: list[str]) -> None:
    causes = [("env[0].name", f'Invalid value: "{name}": {text}') for text in texts]
    assert container_causes(kinds, env=[{"name": name}]) == causes
    prefixes = [("envFrom[0].prefix", text) for _, text in causes]
    sources = [{"prefix": name, "secretRef": {"name": "s"}}]
    assert container_causes(kinds, envFrom=sources) == prefixes


def test_variable_needs_a_name(kinds: Definitions) -> None:
    assert container_causes(kinds, env=[{"value": "x"}]) == [("env[0].name", "Required value")]


@cases(
    ("source", "causes"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, []),
        ({"fieldRef": {"fieldPath": "spec.host"}}, []),
        ({"fieldRef": {"fieldPath": "status.podIPs"}}, []),
        ({"fieldRef": {"fieldPath": "metadata.labels['a']"}}, []),
        ({"fieldRef": {"fieldPath": "metadata.annotations['A/b']"}}, []),
        ({"fieldRef": {"fieldPath": ""}}, [(".fieldRef.fieldPath", "Required value")]),
        (
            {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}},
            [
                (
                    ".fieldRef.fieldPath",
                    'Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2',
                )
            ],
        ),
        (
            {"fieldRef": {"fieldPath": "spec.nothing"}},
            [
                (
                    ".fieldRef.fieldPath",
                    'Invalid value: "spec.nothing": error converting fieldPath: '
                    "field label not supported: spec.nothing",
                )
            ],
        ),
        (
            {"fieldRef": {"fieldPath": "metadata.name['a']"}},
            [
                (
                    ".fieldRef.fieldPath",
                    "Invalid value: \"metadata.name['a']\": error converting fieldPath: "
                    "field label does not support subscript: metadata.name['a']",
                )
            ],
        ),
        (
            {"fieldRef": {"fieldPath": "metadata.labels"}},
            [
                (
                    ".fieldRef.fieldPath",
                    'Unsupported value: "metadata.labels": supported values: "metadata.name", '
                    '"metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
                    '"status.hostIP", "status.podIP", "status.podIPs"',
                )
            ],
        ),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, []),
        ({"resourceFieldRef": {"resource": "requests.hugepages-2Mi"}}, []),
        ({"resourceFieldRef": {"resource": ""}}, [(".resourceFieldRef.resource", "Required value")]),
        (
            {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}},
            [
                (
                    ".resourceFieldRef.divisor",
                    'Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are supported with the cpu '
                    "resource",
                )
            ],
        ),
        (
            {"resourceFieldRef": {"resource": "requests.ephemeral-storage", "divisor": "3"}},
            [
                (
                    ".resourceFieldRef.divisor",
                    f'Invalid value: "requests.ephemeral-storage": only divisor\'s values {BYTES} are '
                    "supported with the local ephemeral storage resource",
                )
            ],
        ),
        (
            {"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "3"}},
            [
                (
                    ".resourceFieldRef.divisor",
                    f'Invalid value: "limits.hugepages-2Mi": only divisor\'s values {BYTES} are supported '
                    "with the hugepages resource",
                )
            ],
        ),
        ({"configMapKeyRef": {"name": "m", "key": "k"}}, []),
        (
            {"configMapKeyRef": {"name": "M", "key": ""}},
            [
                (".configMapKeyRef.name", f'Invalid value: "M": {SUBDOMAIN}'),
                (".configMapKeyRef.key", "Required value"),
            ],
        ),
        (
            {"secretKeyRef": {"name": "s", "key": "a b"}},
            [(".secretKeyRef.key", f'Invalid value: "a b": {KEY}')],
        ),
        (
            {},
            [
                (
                    "",
                    'Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
                    "`configMapKeyRef` or `secretKeyRef`",
                )
            ],
        ),
        (
            {"secretKeyRef": {"name": "s", "key": "k"}, "fieldRef": {"fieldPath": "metadata.uid"}},
            [("", 'Invalid value: "": may not have more than one field specified at a time')],
        ),
    ],
)
def test_value_sources_are_validated(kinds: Definitions, source: Any, causes: list[tuple[str, str]]) -> None:
    expected = [(f"env[0].valueFrom{field}", text) for field, text in causes]
    assert container_causes(kinds, env=[{"name": "A", "valueFrom": source}]) == expected


def test_variable_has_a_value_or_a_source_but_not_both(kinds: Definitions) -> None:
    env = [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    assert container_causes(kinds, env=env) == [
        ("env[0].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty')
    ]


@cases(
    ("source", "causes"),
    [
        ({"configMapRef": {"name": "m-"}, "prefix": "P_"}, []),
        ({"secretRef": {"name": ""}}, [("envFrom[0].secretRef.name", "Required value")]),
        (
            {"configMapRef": {"name": "M"}},
            [("envFrom[0].configMapRef.name", f'Invalid value: "M": {SUBDOMAIN}')],
        ),
        ({}, [("envFrom", 'Invalid value: "": must specify one of: `configMapRef` or `secretRef`')]),
        (
            {"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}},
            [("envFrom", 'Invalid value: "": may not have more than one field specified at a time')],
        ),
    ],
)
def test_env_from_sources_are_validated(
    kinds: Definitions, source: Any, causes: list[tuple[str, str]]
) -> None:
    assert container_causes(kinds, envFrom=[source]) == causes
