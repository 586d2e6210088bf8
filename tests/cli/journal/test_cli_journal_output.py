from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rewound.actors.rewind.difference import escaped
from rewound.cli.journal.printing import Columns, LogLines, Output, author, until_printed
from rewound.recording import progress as progress_module
from rewound.recording.progress import Progress
from rewound.recording.query.entries import Selection
from rewound.recording.query.events import EventReader
from rewound.recording.query.folder import Masking, open_folder
from tests.cases import cases
from tests.gateway.journal_commands import put, run_journal, write_history
from tests.no_progress import USUAL_DELAY


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@cases(
    ("stream", "color", "environ", "expected"),
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
def test_colours_appear_on_terminals_only(
    stream: io.StringIO, color: str, environ: dict[str, str], expected: bool
) -> None:
    assert Output.of(stream, color, environ).colored is expected


ACCOUNT = "kube-system/deployment-controller"


def test_output_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    write_history(tmp_path, [put("web", {"color": "blue"}), put("web", {"color": "red"})])
    assert "\x1b[" not in run_journal("log", f"--data-dir={tmp_path}").out
    assert "\x1b[" in run_journal("log", "--color=always", f"--data-dir={tmp_path}").out
    assert "\x1b[33m" in on_a_terminal(tmp_path, {})
    assert "\x1b[" not in on_a_terminal(tmp_path, {"NO_COLOR": "1"})


def on_a_terminal(folder: Path, environ: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rewound.cli.main", "journal", "log", f"--data-dir={folder}"]
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    subprocess.run(command, stdout=theirs, env={**inherited, **environ}, check=True, timeout=120)
    os.close(theirs)
    result = b""
    try:
        while piece := os.read(ours, 65536):
            result += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    return result.decode()


def test_control_characters_are_escaped(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", {"k": "\x1b]0;title\x07\x9b31m"}, user="evil\x1b[2J\nroot")])
    for command in (["log"], ["show", "1"], ["history", "cm", "default/a"], ["diff", "0"]):
        result = run_journal(*command, f"--data-dir={tmp_path}").out
        assert not {"\x1b", "\x07", "\x9b"} & {*result}
    assert "evil\\x1b[2J\\nroot" in run_journal("log", f"--data-dir={tmp_path}").out


def test_printable_characters_are_not_escaped() -> None:
    assert escaped("größe 日本 …") == "größe 日本 …"
    assert escaped("a\tb\u202ec") == "a\\tb\\u202ec"


def test_columns_grow_and_align() -> None:
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


def test_terminal_width_cuts_the_last_column_and_shortens_names() -> None:
    stream = io.StringIO()
    columns = Columns(Output(stream, width=60), ("USER", "WHAT"), shares={"USER": 4})
    columns.rows([("system:serviceaccount:cluster-system:controller", "x" * 100)])
    _, line = stream.getvalue().splitlines()
    assert len(line) == 60
    assert line.startswith("system…")
    assert "controller" in line or "troller" in line
    assert line.endswith("x…")


def test_two_names_are_never_shortened_to_the_same_text() -> None:
    stream = io.StringIO()
    columns = Columns(Output(stream, width=80), ("USER", "WHAT"), shares={"USER": 5})
    names = [
        f"kube-system/{middle}-set-and-status-controller" for middle in ("replica", "stateful", "daemon")
    ]
    columns.rows([(name, "x") for name in [*names, names[0]]])
    first, second, third, again = (line.split()[0] for line in stream.getvalue().splitlines()[1:])
    assert len({first, second, third}) == 3 and again == first
    assert "…" in first and second == names[1]


@cases(
    ("user", "manager", "short"),
    [
        ("system:serviceaccount:kube-system:deployment-controller", "kube-controller-manager", ACCOUNT),
        ("system:node:a", "kubelet", "node:a"),
        ("alice", "kubectl", "alice with kubectl"),
        ("alice", "", "alice"),
    ],
)
def test_author_on_a_terminal(user: str, manager: str, short: str) -> None:
    assert author(user, manager) == short


@pytest.mark.parametrize(("width", "folds"), [(80, True), (200, True), (None, True), (80, False)])
def test_objects_of_a_new_cluster_are_one_line_of_a_terminal(
    tmp_path: Path, width: int | None, folds: bool
) -> None:
    new = [put(f"initial-{number}", user="system:apiserver") for number in range(6)]
    write_history(tmp_path, [*new[:3], put("other"), *new[3:]])
    stream = io.StringIO()
    with open_folder(tmp_path) as folder:
        lines = LogLines(Output(stream, width=width), folder.kinds.of_type_id, folds=folds)
        reader = EventReader(folder.journal, Selection(), Masking(folder.kinds, show_secrets=False))
        lines.print([one for some in reader.forward(0, 7) for one in some])
    _, *rows = stream.getvalue().splitlines()
    if width is None or not folds:
        assert len(rows) == 7
    else:
        initial, other = rows
        assert initial.split()[0] == "1" and "6 initial ones" in initial and "up to 7" in initial
        assert "default/other" in other
        assert max(map(len, rows)) <= width


def test_character_outside_the_encoding_is_escaped() -> None:
    raw = io.BytesIO()
    output = Output.of(io.TextIOWrapper(raw, "ascii"), "auto", {})
    output.line("größe")
    output.flush()
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"


def test_columns_of_rows_one_by_one_repeat_their_titles_when_they_grow() -> None:
    stream = io.StringIO()
    columns = Columns(Output(stream), ("N", "NAME", "WHAT"), ("N",), reserved={"NAME": 6})
    for row in (
        ("1", "a", "first"),
        ("2", "longer", "fits"),
        ("3", "much-longer", "grows"),
        ("4", "b", "last"),
    ):
        columns.rows([row])
    assert stream.getvalue().splitlines() == [
        "N  NAME    WHAT",
        "1  a       first",
        "2  longer  fits",
        "N  NAME         WHAT",
        "3  much-longer  grows",
        "4  b            last",
    ]


def test_followed_log_keeps_its_columns_for_a_longer_name(tmp_path: Path) -> None:
    """On a terminal a longer name is shortened to the width that its column has from the start."""
    write_history(tmp_path, [put("a"), put("a-name-that-is-much-longer-than-the-first-one-" + "x" * 40)])
    stream = io.StringIO()
    with open_folder(tmp_path) as folder:
        lines = LogLines(Output(stream, width=140), folder.kinds.of_type_id, follows=True)
        reader = EventReader(folder.journal, Selection(), Masking(folder.kinds, show_secrets=False))
        for entry in [one for some in reader.forward(0, 2) for one in some]:
            lines.print([entry])
    title, *rows = stream.getvalue().splitlines()
    assert len(rows) == 2
    for column in ("WHO", "OBJECT", "WHAT"):
        at = title.index(column)
        assert all(row[at - 1] == " " != row[at] for row in rows), column


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_ends_with_the_first_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "DELAY", USUAL_DELAY)
    now = 0.0
    said = Terminal()
    with Progress("log", 9, said, lambda: now) as progress:
        items = until_printed(iter([[], [], ["event"], ["event"]]), progress, Output(io.StringIO(), width=80))
        for number, _ in enumerate(items, 1):
            now += 60
            progress(number)
    assert "2 of 9" in said.getvalue() and "3 of 9" not in said.getvalue()
    assert said.getvalue().endswith("\r\x1b[K")
