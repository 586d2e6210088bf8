"""Man pages of all commands, made from their --help: `python -m rewound.cli.man FOLDER` (`make man`).

A release has them in share/man/man1. The same source and Python give the same bytes: no page has a date.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from rewound.release import RELEASE

# Words that follow a command and have a help of their own, or none.
SUBCOMMANDS = {
    "certificate": ("approve", "deny"),
    "completion": ("bash", "zsh", "fish"),
    "config": ("print",),
    "import": ("audit", "kwok"),
    "journal": (
        *("log", "history", "show", "at", "diff", "since", "compare", "blame", "suspects", "why"),
        *("rollback", "undelete", "stats", "verify", "recover", "export", "import"),
    ),
    "policy": ("test",),
    "rules": ("list", "test"),
    "token": ("bootstrap",),
}
_HEADING = re.compile(r"^(?! )(\S.*):$")


def help_of(words: Sequence[str]) -> str:
    """What a command prints with --help."""
    from rewound.cli.main import main

    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue()


def page(name: str, what: str, text: str) -> str:
    """A page in the language of man, with the lines of a help as they are."""
    usage, _, rest = text.partition("\n\n")
    lines = [
        f'.TH "{name.upper()}" "1" "" "Rewound {RELEASE}" "Rewound"',
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(what.replace('`', ''))}",
        ".SH SYNOPSIS",
        *_as_they_are(usage.removeprefix("usage: ")),
        ".SH DESCRIPTION",
    ]
    section: list[str] = []
    for line in rest.rstrip().split("\n"):
        if heading := _HEADING.match(line):
            lines += [*_as_they_are("\n".join(section).strip("\n")), f".SH {_escaped(heading[1].upper())}"]
            section = []
        else:
            section.append(line)
    lines += _as_they_are("\n".join(section).strip("\n"))
    others = "rewound(1)" if name != "rewound" else "rewound\\-log(1) and others: one page for each command"
    return "\n".join([*lines, ".SH SEE ALSO", others]) + "\n"


def _as_they_are(text: str) -> list[str]:
    return [".nf", *map(_escaped, text.split("\n")), ".fi"] if text else []


def _escaped(line: str) -> str:
    text = line.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return rf"\&{text}" if text.startswith(".") else text


def pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    from rewound.cli.main import COMMANDS

    made = {"rewound.1": page("rewound", "a cluster API server with a memory", help_of([]))}
    for name, (_, what) in COMMANDS.items():
        made[f"rewound-{name}.1"] = page(f"rewound-{name}", what, help_of([name]))
    return made


def main(folder: Path) -> int:
    os.environ["COLUMNS"] = "80"  # how wide argparse formats
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
