from __future__ import annotations

import gzip
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rewound.journal import Journal, retention
from tests.gateway.journal_commands import delete, put, run_journal, write_history
from tests.no_progress import COMMAND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_history(
        folder,
        [put(f"n{at % 9}", {"at": str(at)}, user=f"u{at % 2}") for at in range(60)]
        + [delete("n3"), put("lock", type_name="leases.coordination.k8s.io")],
        dialect="kubernetes",
    )
    return folder


def answers(folder: Path) -> list[Any]:
    """The output of several commands on a folder."""
    commands = (
        ["log", "-o", "json"],
        ["state", "-o", "json"],
        ["state", "--at=40", "-o", "json"],
        ["history", "cm", "default/n4", "-o", "json"],
        ["diff", "40", "-o", "json"],
        ["log"],
    )
    return [run_journal(*words, f"--data-dir={folder}") for words in commands]


@pytest.mark.parametrize("name", ["all.journal", "all.journal.gz"])
@pytest.mark.parametrize("floor", [0, 35])
def test_import_restores_an_export(folder: Path, tmp_path: Path, name: str, floor: int) -> None:
    journal = Journal.open(folder / "journal", dialect="kubernetes")
    while not retention.advance(journal, floor).done:
        pass
    journal.close()
    file, copy = tmp_path / name, tmp_path / "deep" / "copy"
    result = run_journal("export", file, f"--data-dir={folder}")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("exported ")
    result = run_journal("import", file, f"--data-dir={copy}")
    assert (result.code, result.err) == (0, "")
    assert result.lines[1] == f"serve it with: rewound serve --data-dir {copy} --dialect kubernetes"
    assert answers(copy) == answers(folder)
    assert run_journal("verify", f"--data-dir={copy}").lines[-1] == "sound"
    assert sorted(path.name for path in copy.iterdir()) == ["journal"]


def test_export_file_is_readable_by_its_owner_only(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    run_journal("export", file, f"--data-dir={folder}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "x"]


def test_existing_file_is_replaced_only_with_force(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("precious")
    result = run_journal("export", file, f"--data-dir={folder}")
    assert (result.code, file.read_text()) == (1, "precious")
    assert result.err == f"rewound: {file} already exists; name another file, or replace it with --force\n"
    document = run_journal("export", file, "--force", "-o", "json", f"--data-dir={folder}").document
    assert (document["events"], document["bytes"]) == (62, file.stat().st_size)


def test_export_and_import_through_a_pipe(folder: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "journal"]
    exported = subprocess.run(
        [*command, "export", "-", f"--data-dir={folder}"], check=True, capture_output=True, timeout=120
    )
    assert exported.stderr == b""
    for number, piped in enumerate((exported.stdout, gzip.compress(exported.stdout))):
        copy = tmp_path / f"copy{number}"
        subprocess.run(
            [*command, "import", "-", f"--data-dir={copy}"],
            input=piped,
            check=True,
            capture_output=True,
            timeout=120,
        )
        assert answers(copy) == answers(folder)


def test_import_refuses_a_folder_with_a_journal(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x"
    run_journal("export", file, f"--data-dir={folder}")
    before = answers(folder)
    result = run_journal("import", file, f"--data-dir={folder}")
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith("already has a journal: import into another data folder\n")
    assert answers(folder) == before


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_import_of_a_damaged_file_leaves_nothing(folder: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    run_journal("export", file, f"--data-dir={folder}")
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:-20] + bytes(20), whole + b"more"):
        file.write_bytes(damaged)
        result = run_journal("import", file, f"--data-dir={tmp_path / 'copy'}")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("rewound: the file is damaged at byte ")
        assert result.err.count("\n") == 1
        assert not (tmp_path / "copy").exists()


def test_other_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    result = run_journal("import", tmp_path / "x", f"--data-dir={tmp_path / 'copy'}")
    assert "it does not begin like an export" in result.err
    result = run_journal("import", tmp_path / "y", f"--data-dir={tmp_path / 'copy'}")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{tmp_path / 'y'}: No such file or directory" in result.err
    assert not (tmp_path / "copy").exists()


def test_import_that_gets_sigterm_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    """The file never ends: the import waits for more bytes when the signal comes."""
    file = tmp_path / "x"
    run_journal("export", file, f"--data-dir={folder}")
    importing = subprocess.Popen(
        [*COMMAND, "journal", "import", "-", f"--data-dir={tmp_path / 'copy'}"],
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


def test_export_into_a_missing_folder_names_the_path(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "missing" / "backup.journal"
    result = run_journal("export", target, f"--data-dir={folder}")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"rewound: {target}: the folder {target.parent} does not exist; create it first, or name another file\n"
    )
