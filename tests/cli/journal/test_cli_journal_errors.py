from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.journal_commands import put, run_journal, write_history

COMMANDS = ["log", "show", "history", "at", "state", "diff", "blame", "verify", "export", "import", "stats"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(tmp_path, [put("web")])
    return tmp_path


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["show"], "the following arguments are required: VERSION; see rewound journal show --help"),
        (["show", "x"], "VERSION: 'x' is not a version; `rewound log` shows them"),
        (["show", "0"], "VERSION: '0' is not a version"),
        (["history", "cm"], "'cm' names no object; write TYPE/NAME, such as deploy/web"),
        (["log", "--tail", "0"], "--limit/--tail: '0' is not a number from 1 up"),
        (["log", "--limit=-3"], "--limit/--tail: '-3' is not a number from 1 up"),
        (["log", "--since=soon"], "--since: 'soon' is not a moment; write a version (1042), a time"),
        (["state", "--at=soon"], "--at: 'soon' is not a moment"),
        (["diff", "soon"], "A: 'soon' is not a moment"),
        (["log", "-o", "xml"], "-o/--output: invalid choice: 'xml'"),
        (["log", "--colour"], "unrecognized arguments: --colour"),
        (["log", "-f", "--reverse"], "--follow: has no end"),
        (["log", "-f", "--until=5"], "--follow: has no end"),
        (["log", "--kind=confgmap"], "'confgmap' is not a kind of this journal; did you mean configmap?"),
        (["log", "--kind=xyzzy"], "'xyzzy' is not a kind of this journal; there are "),
        (
            ["state", "--kind=ns", "--namespace=a"],
            "--namespace: namespaces are cluster-scoped; leave it out",
        ),
    ],
)
def test_wrong_arguments_print_one_line_and_exit_2(folder: Path, words: list[str], result: str) -> None:
    answer = run_journal(*words, f"--data-dir={folder}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"rewound: {result}")
    assert answer.err.count("\n") == 1


def test_ambiguous_plural_lists_the_types(tmp_path: Path) -> None:
    write_history(tmp_path, [put("a", type_name="widgets.a.org"), put("a", type_name="widgets.b.org")])
    answer = run_journal("log", "--kind=widgets", f"--data-dir={tmp_path}")
    assert answer.err == "rewound: 'widgets' may be widgets.a.org or widgets.b.org; write one of them\n"
    assert run_journal("log", "--kind=widgets.a.org", f"--data-dir={tmp_path}").code == 0


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "import"])
def test_folder_without_a_journal_prints_one_line_and_exits_1(tmp_path: Path, command: str) -> None:
    words = {
        "show": ["1"],
        "history": ["cm", "a/b"],
        "at": ["1"],
        "blame": ["cm", "a/b"],
        "diff": ["1"],
        "export": [str(tmp_path / "x")],
    }
    answer = run_journal(command, *words.get(command, []), f"--data-dir={tmp_path / 'nowhere'}")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("rewound: there is no journal in ")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from rewound.cli.main import main

    with pytest.raises(SystemExit) as stopped:
        main(["journal", command, "--help"])
    assert stopped.value.code == 0
    result = capsys.readouterr().out
    assert result.startswith(f"usage: rewound journal {command}")
    assert "--data-dir FOLDER" in result


def test_usage_lists_the_commands() -> None:
    result = run_journal("--help")
    assert result.code == 0
    for command in COMMANDS:
        listed = f"rewound journal {command} " in result.out
        assert listed is (command != "state")  # an old name of `at`
    assert run_journal().code == 2
    assert run_journal("lgo").err.startswith(
        "rewound: 'lgo' is not a command of the journal; did you mean log?"
    )
