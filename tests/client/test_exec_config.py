"""The exec entry of a user: what is required, and how the command is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.client.errors import ConfigError
from rewound.client.exec import parse_exec
from tests.cases import cases
from tests.client.files import CLUSTER_V1

V1BETA1 = "client.authentication.cluster.io/v1beta1"
FOLDER = Path("/etc/access")


def parsed(**changed: Any) -> Any:
    entry = {"apiVersion": CLUSTER_V1, "command": "login", "interactiveMode": "Never", **changed}
    given = {name: value for name, value in entry.items() if value is not None}
    return parse_exec(given, "/f: users[me].user.exec", FOLDER)


@cases(
    ("changed", "text"),
    [
        ({"command": None}, "command is missing"),
        ({"command": 7}, "command is not a string"),
        ({"apiVersion": None}, "apiVersion is missing; give one of client.authentication.cluster.io/v1,"),
        ({"apiVersion": "client.authentication.cluster.io/v1alpha1"}, "apiVersion is 'client.auth"),
        (
            {"interactiveMode": None},
            "interactiveMode is missing, and client.authentication.cluster.io/v1 req",
        ),
        (
            {"interactiveMode": "Sometimes"},
            "interactiveMode is 'Sometimes'; give Never, IfAvailable or Always",
        ),
        ({"apiVersion": V1BETA1, "interactiveMode": "never"}, "interactiveMode is 'never'"),
        ({"args": "x"}, "args is not a list of strings"),
        ({"args": [1]}, "args is not a list of strings"),
        ({"env": {"A": "b"}}, "env is not a list"),
        ({"env": [{"value": "b"}]}, "env[0] has no name"),
        ({"env": [{"name": "A", "value": 1}]}, "env[0].value is not a string"),
        ({"provideClusterInfo": "yes"}, "provideClusterInfo is neither true nor false"),
    ],
)
def test_wrong_entry_is_refused_with_file_and_field(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(**changed)
    assert str(refused.value).startswith("/f: users[me].user.exec.")
    assert text in str(refused.value)


@pytest.mark.parametrize("version", [CLUSTER_V1, V1BETA1])
def test_both_versions_are_known(version: str) -> None:
    config = parsed(apiVersion=version)
    assert (config.api_version, config.info_variable) == (version, "CLUSTER_EXEC_INFO")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_kubernetes_dialect_has_its_own_group_and_variable(version: str) -> None:
    config = parsed(apiVersion=f"client.authentication.k8s.io/{version}")
    assert config.info_variable == "KUBERNETES_EXEC_INFO"


def test_interactive_mode_of_v1beta1_defaults_to_if_available() -> None:
    assert parsed(apiVersion=V1BETA1, interactiveMode=None).interactive_mode == "IfAvailable"


@cases(
    ("command", "found"),
    [
        ("login", "login"),
        ("bin/login", "/etc/access/bin/login"),
        ("./login", "/etc/access/login"),
        ("../login", "/etc/login"),
        ("/usr/bin/login", "/usr/bin/login"),
    ],
)
def test_relative_path_is_resolved_against_the_folder_of_the_file(command: str, found: str) -> None:
    assert parsed(command=command).command == found


def test_repr_shows_no_environment() -> None:
    config = parsed(env=[{"name": "SECRET", "value": "hush"}], args=["--password=hush"])
    assert "hush" not in repr(config)
