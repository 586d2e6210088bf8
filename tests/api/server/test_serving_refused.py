"""Data folders and token files that cannot be served: one line on stderr, exit code 1, folder unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.journal.log import Journal


def serve(folder: Path, *more: str) -> int:
    tokens = folder.parent / "tokens.csv"
    tokens.write_text("")
    flags = ["--data-dir", str(folder), "--secure-port", "0", "--insecure-port", "1"]
    return main(["serve", *flags, "--token-auth-file", str(tokens), *more])


@pytest.mark.parametrize(("made", "asked"), [("kubernetes", "cluster"), ("cluster", "kubernetes")])
def test_folder_of_another_dialect_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, asked: str
) -> None:
    Journal.open(tmp_path / "journal", dialect=made).close()
    before = (tmp_path / "journal" / "data.mdb").read_bytes()
    assert serve(tmp_path, "--dialect", asked) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"was created with the dialect '{made}' and cannot serve '{asked}'" in printed.err
    assert f"start with --dialect {made}" in printed.err
    assert (tmp_path / "journal" / "data.mdb").read_bytes() == before


def test_folder_in_use_by_another_server_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Journal.open(tmp_path / "journal")
    try:
        assert serve(tmp_path) == 1
    finally:
        other.close()
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "is already being written by process" in printed
    assert "stop that server first, or use another data folder" in printed


def test_folder_without_a_readable_journal_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "data.mdb").write_bytes(b"not a journal at all" * 1000)
    assert serve(tmp_path) == 1
    assert "holds no readable journal" in capsys.readouterr().err


def test_malformed_token_file_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "wrong.csv"
    tokens.write_text("only-a-token\n")
    assert serve(tmp_path / "data", "--token-auth-file", str(tokens)) == 1
    assert f"{tokens}, line 1: " in capsys.readouterr().err
