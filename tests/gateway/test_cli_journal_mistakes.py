from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.chronicle import ask, put, tell

COMMANDS = ["log", "show", "history", "state", "diff", "verify", "export", "import", "stats"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tell(tmp_path, [put("web")])
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show"], "the following arguments are required: OFFSET; see rewound journal show --help"),
        (["show", "x"], "OFFSET: 'x' is not an offset; `rewound journal log` shows them"),
        (["show", "0"], "OFFSET: '0' is not an offset"),
        (["history", "cm"], "the following arguments are required: NAMESPACE/NAME"),
        (["log", "-n", "0"], "-n/--limit: '0' is not a number from 1 up"),
        (["log", "--limit=-3"], "-n/--limit: '-3' is not a number from 1 up"),
        (["log", "--since=soon"], "--since: 'soon' is no moment; write an offset (1042), a time"),
        (["state", "--at=soon"], "--at: 'soon' is no moment"),
        (["diff", "soon"], "A: 'soon' is no moment"),
        (["log", "-o", "xml"], "-o/--output: invalid choice: 'xml'"),
        (["log", "--colour"], "unrecognized arguments: --colour"),
        (["log", "-f", "--reverse"], "--follow: goes on without an end"),
        (["log", "-f", "--until=5"], "--follow: goes on without an end"),
        (["log", "--kind=confgmap"], "'confgmap' is no kind of this journal; did you mean configmap?"),
        (["log", "--kind=xyzzy"], "'xyzzy' is no kind of this journal; there are "),
        (
            ["state", "--kind=ns", "--namespace=a"],
            "--namespace: namespaces are in no namespace; leave it out",
        ),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(folder: Path, words: list[str], said: str) -> None:
    answer = ask(*words, f"--data-dir={folder}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"rewound: {said}")
    assert answer.err.count("\n") == 1


def test_a_plural_of_two_groups_asks_which(tmp_path: Path) -> None:
    tell(tmp_path, [put("a", type_name="widgets.a.org"), put("a", type_name="widgets.b.org")])
    answer = ask("log", "--kind=widgets", f"--data-dir={tmp_path}")
    assert answer.err == "rewound: 'widgets' may be widgets.a.org or widgets.b.org; write one of them\n"
    assert ask("log", "--kind=widgets.a.org", f"--data-dir={tmp_path}").code == 0


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "import"])
def test_a_folder_without_a_journal_is_one_line_and_exit_1(tmp_path: Path, command: str) -> None:
    words = {"show": ["1"], "history": ["cm", "a/b"], "diff": ["1"], "export": [str(tmp_path / "x")]}
    answer = ask(command, *words.get(command, []), f"--data-dir={tmp_path / 'nowhere'}")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("rewound: there is no journal in ")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gateway.cli.main import main

    with pytest.raises(SystemExit) as stopped:
        main(["journal", command, "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: rewound journal {command}")
    assert "--data-dir FOLDER" in said


def test_the_commands_are_listed() -> None:
    said = ask("--help")
    assert said.code == 0
    for command in COMMANDS:
        assert f"rewound journal {command} " in said.out
    assert ask().code == 2
    assert ask("lgo").err.startswith("rewound: 'lgo' is not a command of the journal; did you mean log?")
