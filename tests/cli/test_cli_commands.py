from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from rewound.cli.main import USAGE, main
from rewound.cli.replay.flags import plays
from rewound.release import RELEASE


def test_version_is_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rewound {RELEASE}\nKubernetes 1.25 to 1.36\n"


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "rewound serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "usage:"),
        (["srve"], "'srve' is not a command; did you mean `rewound serve`? "),
        (["get", "nodes"], "`rewound at now nodes` lists"),
    ],
)
def test_missing_or_unknown_command_prints_usage(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


def test_wrong_flag_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--secure-port=x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rewound: --secure-port: 'x' is not a port")
    assert captured.err.count("\n") == 1


def test_help_for_serve_needs_no_valid_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--secure-port=0", "--help"])
    assert stopped.value.code == 0
    assert "--bind-address ADDRESS" in capsys.readouterr().out


def test_version_imports_little() -> None:
    program = (
        "import sys; from rewound.cli.main import main; main(['--version'])\n"
        "heavy = {'trio', 'argparse', 'ssl', 'lmdb', 'orjson', 'cryptography'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=120)


JOURNAL_COMMANDS = "log show history state diff stats verify recover export import"


@pytest.mark.parametrize(
    "command",
    [
        *re.findall(r"^  rewound ([a-z][a-z-]*) ", USAGE, re.MULTILINE),
        "token bootstrap",
        *(f"journal {one}" for one in JOURNAL_COMMANDS.split()),
    ],
)
def test_help_of_every_command_has_examples_that_can_be_typed(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        code: object = main([*command.split(), "--help"])
    except SystemExit as stopped:
        code = stopped.code
    assert not code
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    examples = [line for line in lines if line.startswith("rewound ")]
    assert any(line.startswith(f"rewound {command}") for line in examples), lines
    if command == "journal":  # these are its commands
        return
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse_only)
    for line in examples:
        typed = re.split(r" {2,}| [|>] ", line)[0]  # without remarks and what the shell does with the output
        with pytest.raises(Parsed):
            main(shlex.split(typed)[1:])


class Parsed(BaseException):
    """Ends a command when its arguments are parsed."""


PARSE = argparse.ArgumentParser.parse_known_args


def parse_only(parser: argparse.ArgumentParser, *given: Any) -> Any:
    if any(one.nargs == argparse.SUPPRESS for one in parser._actions):
        return PARSE(parser, *given)  # parse_intermixed_args, which takes positional arguments afterwards
    options, unknown = PARSE(parser, *given)
    assert not unknown
    if parser.prog == "rewound replay":
        plays(options)  # refuses flags that exclude each other
    raise Parsed


@pytest.mark.parametrize("command", ["log", "diff", "verify", "recover", "export", "import"])
def test_commands_of_the_journal_have_names_without_it(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    short = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["journal", command, "--help"])
    assert short.split() == capsys.readouterr().out.replace("rewound journal", "rewound").split()
