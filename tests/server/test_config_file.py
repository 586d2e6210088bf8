"""`rewound serve --config`: flags from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.server.flags.parser import parse_flags, without_config
from tests.cases import cases

FILE = """\
# Flags without their dashes.
secure-port: 7443
dialect: kubernetes
kubernetes-version: 1.30
token-auth-file: tokens.csv
anonymous-auth: false
watch-history: 10m
authorization-mode: [Node, RBAC]
feature-gates: {WatchList: true, MutatingAdmissionPolicy: true}
service-account-issuer: https://a.example
audit-log-path: "-"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tokens.csv").write_text("")
    (tmp_path / "server.yaml").write_text(FILE)
    return tmp_path


def settings(*arguments: str) -> Settings:
    return parse_flags(arguments)[0]


def refusal(folder: Path, text: str, *arguments: str) -> str:
    (folder / "bad.yaml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        parse_flags([f"--config={folder}/bad.yaml", *arguments])
    return str(refused.value).replace(str(folder), "FOLDER")


def test_file_says_what_flags_would_say(folder: Path) -> None:
    assert settings("--config", str(folder / "server.yaml")) == settings(
        "--secure-port=7443",
        "--dialect=kubernetes",
        "--kubernetes-version=1.30",
        f"--token-auth-file={folder}/tokens.csv",
        "--anonymous-auth=false",
        "--watch-history=10m",
        "--authorization-mode=Node",
        "--authorization-mode=RBAC",
        "--feature-gates=WatchList=true,MutatingAdmissionPolicy=true",
        "--service-account-issuer=https://a.example",
        "--audit-log-path=-",
    )


def test_flags_take_precedence_also_where_they_may_be_repeated(folder: Path) -> None:
    found = settings(
        "--authorization-mode=RBAC", f"--config={folder}/server.yaml", "--secure-port=1", "--anonymous-auth"
    )
    assert (found.secure_port, found.authorization_mode, found.anonymous_auth) == (1, "RBAC", True)
    assert found.feature_gates == "WatchList=true,MutatingAdmissionPolicy=true"


def test_empty_file_says_nothing(folder: Path) -> None:
    (folder / "empty.yaml").write_text("# nothing\n")
    assert settings(f"--config={folder}/empty.yaml") == Settings()


def test_other_processes_get_the_flags_instead_of_the_file(folder: Path) -> None:
    given = ["--secure-port=1", "--config", str(folder / "server.yaml"), "--nodes", "3"]
    flags = without_config(given)
    assert not any(one.startswith("--config") for one in flags)
    assert settings(*flags) == settings(*given)
    assert without_config(["--nodes", "3"]) == ["--nodes", "3"]


@cases(
    ("text", "why"),
    [
        ("a: 1", "line 1: a: is not a key of this file; Keys are the flags"),
        (
            "nodes: 1\nsecure_port: 1",
            "line 2: secure_port: is not a key of this file; did you mean secure-port?",
        ),
        ("--secur-port: 1", "line 1: --secur-port: is not a key of this file; did you mean secure-port?"),
        ("config: other.yaml", "line 1: config: is not a key of this file;"),
        ("secure-port: high", "line 1: secure-port: 'high' is not a port; give a number"),
        ("\nsecure-port: [1]", "line 2: secure-port: expected one value (PORT), got a list"),
        ("rule: {a: {b: c}}", "line 1: rule: expected a value or a list of values, got a mapping"),
        ("controllers: {a: b}", "line 1: controllers: expected a value or a list of values, got a mapping"),
        ("nodes:", "line 1: nodes: has no value; give one, or leave the key out"),
        ("anonymous-auth: maybe", "line 1: anonymous-auth: 'maybe' is neither true nor false"),
        ("nodes: 1\nnodes: 2", "line 2: nodes: is in line 1 too; leave one of them out"),
        ("token-auth-file: x", "line 1: token-auth-file: there is no file FOLDER/x; check the path"),
        ("dialect: latin", "line 1: dialect: 'latin' is not known; choose one of"),
        ("- 1", "expected keys and values, like `secure-port: 7443`"),
        ("a: [", "line 2: did not find"),
        ("a: 1\n---\nb: 2", "line 2: but found another document; write YAML"),
        ("a: \x01", "write YAML in UTF-8"),
    ],
)
def test_refusal_names_file_line_and_key(folder: Path, text: str, why: str) -> None:
    found = refusal(folder, text)
    assert "FOLDER/bad.yaml" in found and why in found


def test_file_is_missing(folder: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"--config: .*none.yaml: No such file or directory; check the path"
    ):
        parse_flags([f"--config={folder}/none.yaml"])


def test_error_about_a_flag_names_no_line(folder: Path) -> None:
    assert refusal(folder, "dialect: kubernetes", "--dialect=latin").startswith("--dialect: 'latin'")
