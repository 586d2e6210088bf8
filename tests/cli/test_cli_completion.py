"""What a shell completes, and the man pages: both come from the help of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rewound.cli import man
from rewound.cli.completion import SCRIPTS, candidates
from rewound.cli.main import COMMANDS, main
from tests.cases import cases
from tests.gateway.journal_commands import put, write_history


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    spaces = [put(one, namespace="", type_name="namespaces") for one in ("default", "shop")]
    write_history(folder, [*spaces, put("web"), put("worker"), put("other", namespace="shop")])
    return folder


def completed(words: str, folder: Path) -> list[str]:
    """The words without their meanings."""
    found = candidates(words.replace("FOLDER", str(folder)).split(" "))
    return [one.partition("\t")[0] for one in found]


@cases(
    ("words", "expected"),
    [
        ("hist", ["history"]),
        ("help hist", ["history"]),
        ("config ", ["print"]),
        ("journal his", ["history"]),
        ("log --sin", ["--since"]),
        ("journal log --sin", ["--since"]),
        ("log -o ", ["text", "json"]),
        ("serve --secure-p", ["--secure-port"]),
        ("completion z", ["zsh"]),
        ("history --data-dir FOLDER c", ["configmaps/"]),
        ("history --data-dir FOLDER cm/w", ["cm/web", "cm/worker"]),
        ("history --data-dir FOLDER cm w", ["web", "worker"]),
        ("history --data-dir FOLDER -n shop cm/", ["cm/other"]),
        ("at 3 --data-dir FOLDER cm/we", ["cm/web"]),
        ("at --data-dir FOLDER c", []),
        ("log --data-dir FOLDER -n ", ["default", "shop"]),
        ("log --data-dir FOLDER --kind conf", ["configmaps"]),
        ("log --data-dir ", []),
        ("nonsense ", []),
    ],
)
def test_words_that_may_follow(folder: Path, words: str, expected: list[str]) -> None:
    assert completed(words, folder) == expected


def test_every_command_has_a_meaning_and_is_completed() -> None:
    assert [one.split("\t") for one in candidates([""])] == [
        [name, text] for name, (_, text) in COMMANDS.items()
    ]


def test_nothing_is_printed_about_mistakes(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "rewound", "__complete", "history", "--data-dir", str(tmp_path), "x/"],
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert (run.stdout, run.stderr) == (b"", b"")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_script_can_be_read_by_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "rewound __complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=120)


# What a shell passes to the function of its script, and how it shows what it gets.
ASKED = {
    "bash": "COMP_WORDS=(rewound log --kind cm); COMP_CWORD=3; compopt() { :; }\n"
    '_rewound; printf "%s\\n" "${COMPREPLY[@]}"\n',
    "zsh": "words=(rewound log --kind cm); CURRENT=4\n_rewound\n",
    "fish": "complete -C 'rewound log --kind cm'\n",
}
# Of the completion system, which a script cannot use: it needs an editor of lines.
BEFORE = {"zsh": 'compdef() { :; }; compadd() { print -rl -- "${(P@)@[-1]}" }\n'}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_shells_get_the_words(shell: str, tmp_path: Path) -> None:
    """The function of the script, with a program in the place of `rewound` that prints its arguments."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "rewound").write_text('#!/bin/sh\nprintf "%s\\tmeaning\\n" cm-2 "$@" cm/\n')
    (tmp_path / "rewound").chmod(0o755)
    run = subprocess.run(
        [shell, "-c", BEFORE.get(shell, "") + SCRIPTS[shell] + ASKED[shell]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    words = {line.partition("\t")[0] for line in run.stdout.splitlines()}
    # fish shows only words that begin with the incomplete one.
    given = {"cm", "cm-2", "cm/"} if shell == "fish" else {"__complete", "log", "--kind", "cm", "cm-2", "cm/"}
    assert words == given, run.stderr


def test_man_pages_are_the_same_twice_and_have_every_command(tmp_path: Path) -> None:
    assert man.main(tmp_path) == 0
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made.keys() == {"rewound.1", *(f"rewound-{name}.1" for name in COMMANDS)}
    assert made["rewound-log.1"] == man.page("rewound-log", COMMANDS["log"][1], man.help_of(["log"]))
    for name, text in made.items():
        assert re.findall(r"^\.SH (NAME|SYNOPSIS|DESCRIPTION)$", text, re.MULTILINE) == [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
        ], name
        assert not re.search(r"^'", text, re.MULTILINE)  # a request of troff
    assert r"\-\-secure\-port" in made["rewound-serve.1"]
