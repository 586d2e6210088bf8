"""Flags that several commands share, and the parser that reports every mistake in one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rewound.gateway.cli.command import UsageError
from rewound.gateway.cli.journal.query.moments import Moment, parse_moment

T = TypeVar("T")

DATA_DIR = Path("rewound-data")


class Parser(argparse.ArgumentParser):
    def __init__(self, name: str, text: str | None, summary: str) -> None:
        super().__init__(
            prog=name,
            description=_prose(text) or summary,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34),
        )
        self.add_argument(
            "--data-dir", type=Path, default=DATA_DIR, metavar="FOLDER", help="(default ./rewound-data)"
        )
        self.add_argument(
            "--color",
            choices=("auto", "always", "never"),
            default="auto",
            help="colours; auto is on a terminal, unless NO_COLOR is set",
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def _prose(text: str | None) -> str:
    """The module docstring without its first line."""
    return (text or "").partition("\n\n")[2].strip()


def add_output(parser: Parser, *forms: str) -> None:
    parser.add_argument(
        "-o", "--output", choices=("text", *forms), default="text", help="(default text, for people)"
    )


def add_kinds(parser: Parser) -> None:
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help="ConfigMap, configmaps, cm or configmaps.<group>; may be repeated",
    )
    parser.add_argument("--namespace", metavar="NAME", help="objects of this namespace; * is a wildcard")
    parser.add_argument("--name", metavar="NAME", help="objects of this name; * is a wildcard")


def add_limits(parser: Parser) -> None:
    parser.add_argument("-n", "--limit", type=count, metavar="N", help="only the newest N")
    parser.add_argument("--reverse", action="store_true", help="newest first")


def add_managed_fields(parser: Parser) -> None:
    parser.add_argument(
        "--show-managed-fields", action="store_true", help="compare metadata.managedFields too"
    )


def add_show_secrets(parser: Parser) -> None:
    parser.add_argument(
        "--show-secrets", action="store_true", help="print the values of Secrets (default ***)"
    )


def moment(text: str) -> Moment:
    return _checked(parse_moment, text)


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def offset(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset; `rewound journal log` shows them")
    return int(text)


def _checked(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


Options = Any  # argparse.Namespace: its attributes are the flags
