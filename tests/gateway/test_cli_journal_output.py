from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.journal.printing.columns import Columns
from gateway.cli.journal.printing.output import Output, harmless
from tests.gateway.chronicle import ask, put, tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "color", "surroundings", "expected"),
    [
        (Terminal(), "auto", {}, True),
        (Terminal(), "auto", {"NO_COLOR": "1"}, False),
        (Terminal(), "auto", {"NO_COLOR": ""}, True),
        (Terminal(), "auto", {"TERM": "dumb"}, False),
        (Terminal(), "never", {}, False),
        (io.StringIO(), "auto", {}, False),
        (io.StringIO(), "always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_are_for_terminals(
    stream: io.StringIO, color: str, surroundings: dict[str, str], expected: bool
) -> None:
    assert Output.of(stream, color, surroundings).colored is expected


def test_on_a_terminal_and_off_it(tmp_path: Path) -> None:
    tell(tmp_path, [put("web", {"color": "blue"}), put("web", {"color": "red"})])
    assert "\x1b[" not in ask("log", f"--data-dir={tmp_path}").out
    assert "\x1b[" in ask("log", "--color=always", f"--data-dir={tmp_path}").out
    assert "\x1b[33m" in on_a_terminal(tmp_path, {})
    assert "\x1b[" not in on_a_terminal(tmp_path, {"NO_COLOR": "1"})


def on_a_terminal(folder: Path, surroundings: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway.cli.main", "journal", "log", f"--data-dir={folder}"]
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    subprocess.run(command, stdout=theirs, env={**inherited, **surroundings}, check=True)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    return said.decode()


def test_a_terminal_obeys_nothing_from_the_journal(tmp_path: Path) -> None:
    tell(tmp_path, [put("a", {"k": "\x1b]0;title\x07\x9b31m"}, user="evil\x1b[2J\nroot")])
    for command in (["log"], ["show", "1"], ["history", "cm", "default/a"], ["diff", "0"]):
        said = ask(*command, f"--data-dir={tmp_path}").out
        assert not {"\x1b", "\x07", "\x9b"} & {*said}
    assert "evil\\x1b[2J\\nroot" in ask("log", f"--data-dir={tmp_path}").out


def test_harmless_leaves_all_that_can_be_printed() -> None:
    assert harmless("größe 日本 …") == "größe 日本 …"
    assert harmless("a\tb\u202ec") == "a\\tb\\u202ec"


def test_columns_grow_and_line_up() -> None:
    stream = io.StringIO()
    columns = Columns(Output(stream), ("N", "NAME", "WHAT"), ("N",))
    columns.rows([("1", "a", "first")])
    columns.rows([("10", "longer", "second"), ("2", "b", "")])
    assert stream.getvalue().splitlines() == [
        "N  NAME  WHAT",
        "1  a     first",
        "10  longer  second",
        " 2  b",
    ]


def test_a_terminal_cuts_the_last_column_and_shortens_names() -> None:
    stream = io.StringIO()
    columns = Columns(Output(stream, width=60), ("USER", "WHAT"), shares={"USER": 4})
    columns.rows([("system:serviceaccount:cluster-system:controller", "x" * 100)])
    _, line = stream.getvalue().splitlines()
    assert len(line) == 60
    assert line.startswith("system…")
    assert "controller" in line or "troller" in line
    assert line.endswith("x…")


def test_a_character_that_the_terminal_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    output = Output.of(io.TextIOWrapper(raw, "ascii"), "auto", {})
    output.line("größe")
    output.flush()
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"
