from __future__ import annotations

import gzip
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from journal import Journal, retention
from tests.gateway.chronicle import ask, gone, put, tell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    tell(
        folder,
        [put(f"n{at % 9}", {"at": str(at)}, user=f"u{at % 2}") for at in range(60)]
        + [gone("n3"), put("lock", type_name="leases.coordination.k8s.io")],
        dialect="kubernetes",
    )
    return folder


def answers(folder: Path) -> list[Any]:
    """What people and programs are told about a folder, from its log to its old states."""
    asked = (
        ["log", "-o", "json"],
        ["state", "-o", "json"],
        ["state", "--at=40", "-o", "json"],
        ["history", "cm", "default/n4", "-o", "json"],
        ["diff", "40", "-o", "json"],
        ["verify", "-o", "json"],
        ["log"],
    )
    return [ask(*words, f"--data-dir={folder}") for words in asked]


@pytest.mark.parametrize("name", ["all.journal", "all.journal.gz"])
@pytest.mark.parametrize("floor", [0, 35])
def test_there_and_back(folder: Path, tmp_path: Path, name: str, floor: int) -> None:
    journal = Journal.open(folder / "journal", dialect="kubernetes")
    while not retention.advance(journal, floor).done:
        pass
    journal.close()
    file, copy = tmp_path / name, tmp_path / "deep" / "copy"
    said = ask("export", file, f"--data-dir={folder}")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("exported ")
    said = ask("import", file, f"--data-dir={copy}")
    assert (said.code, said.err) == (0, "")
    assert said.lines[1] == f"serve it with: rewound serve --data-dir {copy} --dialect kubernetes"
    assert answers(copy) == answers(folder)
    assert ask("verify", f"--data-dir={copy}").lines[-1] == "sound"
    assert sorted(path.name for path in copy.iterdir()) == ["journal"]


def test_a_file_holds_secrets_and_is_its_owners(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    ask("export", file, f"--data-dir={folder}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "x"]


def test_a_file_that_is_there_is_replaced_only_by_force(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("precious")
    said = ask("export", file, f"--data-dir={folder}")
    assert (said.code, file.read_text()) == (1, "precious")
    assert said.err == f"rewound: {file} is there already; name another file, or replace it with --force\n"
    document = ask("export", file, "--force", "-o", "json", f"--data-dir={folder}").document
    assert (document["events"], document["bytes"]) == (62, file.stat().st_size)


def test_through_a_pipe(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway.cli.main", "journal"]
    exported = subprocess.run(
        [*command, "export", "-", f"--data-dir={folder}"], check=True, capture_output=True
    )
    assert exported.stderr == b""
    for number, piped in enumerate((exported.stdout, gzip.compress(exported.stdout))):
        copy = tmp_path / f"copy{number}"
        subprocess.run(
            [*command, "import", "-", f"--data-dir={copy}"], input=piped, check=True, capture_output=True
        )
        assert answers(copy) == answers(folder)


def test_an_import_needs_a_folder_without_a_journal(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    ask("export", file, f"--data-dir={folder}")
    before = answers(folder)
    said = ask("import", file, f"--data-dir={folder}")
    assert (said.code, said.out) == (1, "")
    assert said.err.endswith("already: import into another data folder\n")
    assert answers(folder) == before


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_a_damaged_file_leaves_nothing_behind(folder: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    ask("export", file, f"--data-dir={folder}")
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:-20] + bytes(20), whole + b"more"):
        file.write_bytes(damaged)
        said = ask("import", file, f"--data-dir={tmp_path / 'copy'}")
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith("rewound: the file is damaged at byte ")
        assert said.err.count("\n") == 1
        assert not (tmp_path / "copy").exists()


def test_what_is_no_export_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    said = ask("import", tmp_path / "x", f"--data-dir={tmp_path / 'copy'}")
    assert "it does not begin like an export" in said.err
    said = ask("import", tmp_path / "y", f"--data-dir={tmp_path / 'copy'}")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert f"{tmp_path / 'y'}: No such file or directory" in said.err
    assert not (tmp_path / "copy").exists()


def test_an_import_that_is_told_to_end_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    """The file never ends: the import waits for more of it when the signal comes."""
    file = tmp_path / "x"
    ask("export", file, f"--data-dir={folder}")
    importing = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gateway.cli.main",
            "journal",
            "import",
            "-",
            f"--data-dir={tmp_path / 'copy'}",
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert importing.stdin is not None
    # Larger than any pipe: when it is written, the import has begun.
    importing.stdin.write(file.read_bytes()[:-16])
    importing.stdin.flush()
    importing.terminate()
    assert importing.wait(60) in (143, -15)
    importing.stdin.close()
    assert importing.stderr is not None
    importing.stderr.close()
    assert not (tmp_path / "copy").exists()
