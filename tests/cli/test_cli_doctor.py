"""`rewound doctor`: findings, advice and exit code."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rewound.cli.doctor import fsync_seconds
from rewound.cli.main import main
from rewound.journal import Journal
from tests.ports import reserve_port


def findings(
    capsys: pytest.CaptureFixture[str], *flags: str, code: int | None = None
) -> dict[str, dict[str, Any]]:
    """What it finds, by subject; the exit code says whether there is a problem."""
    found = main(["doctor", "-o", "json", *flags])
    listed: Sequence[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert found == int(any(one["level"] == "problem" for one in listed))
    assert code is None or found == code
    assert all(one["advice"] for one in listed if one["level"] != "ok")
    return {one["about"]: one for one in listed}


def test_a_new_folder_is_examined_where_it_will_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(capsys, f"--data-dir={tmp_path}/a/b", f"--secure-port={reserve_port()}")
    assert "has no journal yet" in found["data folder"]["found"]
    assert found["port"]["level"] == "ok" and str(tmp_path) in found["disk"]["found"]
    assert {"python", "interpreter", "packages", "open files", "fsync", "clock"} <= found.keys()
    assert "trio " in found["packages"]["found"]
    assert not (tmp_path / "a").exists()


def test_a_folder_with_a_writer_a_port_in_use_and_open_files_is_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o755)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        flags = (f"--data-dir={tmp_path}", f"--secure-port={taken.getsockname()[1]}")
        journal = Journal.open(tmp_path / "journal", dialect="cluster")
        try:
            found = findings(capsys, *flags)
            assert "process" in found["data folder"]["found"] and found["port"]["level"] == "ok"
        finally:
            journal.close()
        assert "no server has it open" in findings(capsys, *flags, code=1)["data folder"]["found"]
    (tmp_path / "admin.kubeconfig").touch(0o644)
    assert main(["doctor", *flags]) in (0, 1)
    text = capsys.readouterr().out
    assert f"-> chmod 600 {tmp_path}/admin.kubeconfig" in text and "dialect cluster" in text


def test_damage_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "data.mdb").write_bytes(b"no journal")
    found = findings(capsys, f"--data-dir={tmp_path}", code=1)
    assert found["data folder"]["level"] == "problem" and "verify" in found["data folder"]["advice"]


def test_certificates_that_ended_need_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "pki" / "index.json"
    index.parent.mkdir()
    index.write_text('{"server": {"expires": 1}, "ca": {"expires": 9e9}}')
    assert "that of server" in findings(capsys, f"--data-dir={tmp_path}")["certificates"]["found"]
    index.write_text('{"server": {"expires": 9e9}}')
    assert findings(capsys, f"--data-dir={tmp_path}")["certificates"]["level"] == "ok"


def test_each_write_is_measured(tmp_path: Path) -> None:
    assert len(fsync_seconds(tmp_path, iter(range(1000)).__next__)) == 20
