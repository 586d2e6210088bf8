"""`rewound journal` prints the values of Secrets only with --show-secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.journal_commands import Step, put, run_journal, write_history

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
COMMANDS = [
    ("log",),
    ("log", "-o", "json"),
    ("show", "1"),
    ("show", "2"),
    ("show", "2", "-o", "json"),
    ("show", "2", "-o", "yaml"),
    ("show", "3", "-o", "json"),
    ("history", "secret", "default/key"),
    ("history", "secret", "default/key", "-o", "json"),
    ("state",),
    ("state", "-o", "json"),
    ("state", "-o", "yaml"),
    ("diff", "1"),
    ("diff", "3", "1", "-o", "json"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(tmp_path, [_secret("first-value"), _secret("second-value"), _secret("third-value", "new")])
    return tmp_path


def _secret(value: str, *more: str) -> Step:
    annotations = {
        LAST_APPLIED: f'{{"stringData":{{"password":"{value}"}}}}',
        "yaml": f"kind: Secret\ndata:\n  old: former-{value}",
        "encoded": "H4sI" * 100 + "-value",
        "copy": f"the password is {value}",
        "note": "a harmless note",
    }
    data = {"password": value, "user": "constant-value", **dict.fromkeys(more, "added-value")}
    return put("key", data, type_name="secrets", metadata={"annotations": annotations})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_values_of_secrets_are_masked(folder: Path, command: tuple[str, ...]) -> None:
    result = run_journal(*command, f"--data-dir={folder}")
    assert result.code == 0, result.err
    assert "-value" not in result.out


@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in (("state",),)], ids=" ".join)
def test_values_of_secrets_are_printed_on_request(folder: Path, command: tuple[str, ...]) -> None:
    result = run_journal(*command, "--show-secrets", f"--data-dir={folder}")
    assert "-value" in result.out


def test_comparison_shows_which_values_changed(folder: Path) -> None:
    result = run_journal("show", "3", "-o", "json", f"--data-dir={folder}").document
    paths = [
        f'metadata.annotations["{LAST_APPLIED}"]',
        "metadata.annotations.yaml",
        "metadata.annotations.copy",
    ]
    masks = {"before": "*** (before)", "after": "*** (after)"}
    assert result["changes"] == [
        *({"path": path, **masks} for path in paths),
        {"path": "data.password", **masks},
        {"path": "data.new", "after": "***"},
    ]
    assert result["object"]["data"] == {"password": "***", "user": "***", "new": "***"}
    assert result["object"]["metadata"]["annotations"]["note"] == "a harmless note"


def test_values_of_other_kinds_are_printed(tmp_path: Path) -> None:
    write_history(tmp_path, [put("web", {"color": "blue"}), put("web", {"color": "red"})])
    assert "data.color blue → red" in run_journal("log", f"--data-dir={tmp_path}").out


def test_export_has_the_values(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert run_journal("export", tmp_path / "file", f"--data-dir={folder}").code == 0
    assert run_journal("import", tmp_path / "file", f"--data-dir={copy}").code == 0
    shown = run_journal("state", "-o", "json", "--show-secrets", f"--data-dir={copy}").out
    assert "third-value" in shown
