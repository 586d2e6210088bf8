"""`rewound backup` and `rewound restore`: their flags, what they print, and what they refuse."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.journal import Journal
from rewound.testing.fixture.rewound import Rewound
from tests.cluster.standby.pairs import stored_bytes
from tests.gateway.journal_commands import run_journal

MAPS = "/api/v1/namespaces/default/configmaps"


def create(rewound: Rewound, name: str) -> int:
    made = rewound.request("POST", MAPS, {"metadata": {"name": name}})
    return int(made["metadata"]["resourceVersion"])


def test_backup_ends_when_it_has_everything_and_goes_on_with_the_same_file(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, flags = tmp_path / "cluster.backup", ["--kubeconfig", str(rewound.kubeconfig)]
    versions = []
    for name in "ab":
        create(rewound, name)
        versions.append(rewound.version)
        assert main(["backup", str(file), *flags]) == 0
        assert f"has everything up to version {rewound.version}" in capsys.readouterr().out
    first, second = versions
    assert main(["restore", str(file), "--data-dir", str(tmp_path / "all")]) == 0
    out = capsys.readouterr().out
    assert f"up to version {second} of " in out and "rewound serve --data-dir" in out
    assert stored_bytes(tmp_path / "all" / "journal") == stored_bytes(rewound.data_dir / "journal")
    assert main(["restore", str(file), "--data-dir", str(tmp_path / "a"), "--at", str(first)]) == 0
    assert run_journal("verify", tmp_path / "a").lines[-1] == "sound"
    found = Journal.open(tmp_path / "a" / "journal", readonly=True)
    assert (found.head, bool(found.body(found.type_id("configmaps"), "default", "a"))) == (first, True)
    assert found.body(found.type_id("configmaps"), "default", "b") is None
    found.close()


def test_following_backup_continues_until_a_signal(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, ended = tmp_path / "b", threading.Event()
    size = 0

    def write_then_stop() -> None:
        nonlocal size
        while not (file.exists() and file.stat().st_size > 1000) and not ended.wait(0.01):
            pass
        size = file.stat().st_size
        create(rewound, "later")
        while file.stat().st_size == size and not ended.wait(0.01):
            pass
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=write_then_stop)
    thread.start()
    try:
        flags = ["--kubeconfig", str(rewound.kubeconfig), "--to", str(file)]
        assert main(["backup", "--follow", rewound.url, *flags]) == 0
    finally:
        ended.set()
        thread.join(60)
    assert "ended at version" in capsys.readouterr().out
    assert file.stat().st_size > size > 1000


@pytest.mark.parametrize(
    ("given", "code", "why"),
    [
        ([], 2, "FILE is missing: name the file to write"),
        (["x", "--namespace", "default"], 2, "a backup has all namespaces"),
        (["x", "--follow", "https://a", "--server", "https://b"], 2, "leave one of them out"),
    ],
)
def test_backup_flags_that_are_refused(
    given: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", *given]) == code
    assert why in capsys.readouterr().err


def test_backup_without_rights_or_server_says_so_and_leaves_no_file(
    rewound: Rewound, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = ["--to", str(tmp_path / "b"), "--kubeconfig", str(rewound.kubeconfig)]
    assert main(["backup", *to, "--as", "nobody"]) == 1
    assert 'cannot get path "/journal/feed"' in capsys.readouterr().err
    assert main(["backup", *to, "--follow", "https://127.0.0.1:1"]) == 1
    assert "cannot reach https://127.0.0.1:1" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_restore_refuses_unsuitable_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "new")
    for given, code, why in (
        (["no-file", "--data-dir", folder], 1, "no-file"),
        (["x", "--data-dir", folder, "--at", "someday"], 2, "'someday' is not a moment"),
        (["x"], 2, "required: --data-dir"),
    ):
        assert main(["restore", *given]) == code
        assert why in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
