"""Flags that several commands share: the object, what is read, and the form of the output."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rewound.cli.access.flags import Options as Options
from rewound.cli.access.flags import Parser as Parser
from rewound.cli.access.flags import add_connection
from rewound.client.errors import UsageError
from rewound.recording.query.moments import Moment, parse_moment
from rewound.server.flags.values import argument_type

DATA_DIR = Path("rewound-data")
KIND = "ConfigMap, configmaps, cm or configmaps.<group>"
MOMENT = "a version, a time or how long ago"


OBJECT_NAMESPACE = "of the object (default: that of the context, or default)"


UNLESS_SERVER = "(default ./rewound-data, if there is one and neither a flag nor $KUBECONFIG names a server)"


def add_source(parser: Parser, namespace: str = OBJECT_NAMESPACE, *, writes: bool = False) -> None:
    """Add the flags that choose a server, a folder or a file. `namespace` is the help of --namespace.

    `writes`: the command writes to a server, and with a folder or file only prints what it would write.
    """
    group = parser.add_argument_group("a data folder or a file instead of a server")
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help="print what would be written" if writes else UNLESS_SERVER,
    )
    group.add_argument(
        "--file", type=Path, metavar="FILE", help="that `rewound export`, `record` or `backup` wrote"
    )
    add_connection(parser, namespace)


def add_manifests_or_journal(parser: Parser) -> Any:
    """Add the flags of a command that checks manifests or a journal instead of the objects of a server."""
    group = parser.add_argument_group("files instead of a server")
    group.add_argument(
        "--file",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="manifests, folders of them, or one file of `rewound export`, `record` or `backup`",
    )
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help=UNLESS_SERVER,
    )
    return group


def add_folder(parser: Parser) -> None:
    """Add the flags of a command that works on a folder, not on a server."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=DATA_DIR,
        action=_Given,
        metavar="FOLDER",
        help=f"(default ./{DATA_DIR})",
    )
    parser.set_defaults(data_dir_given=False)


class _Given(argparse.Action):
    """Marks the folder as given, not the default."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        namespace.data_dir, namespace.data_dir_given = values, True


def refuse_second_folder(options: Options, name: str, folder: Path | None) -> None:
    """Raises UsageError if both the argument and --data-dir are given."""
    if folder is not None and options.data_dir_given:
        raise UsageError(
            f"--data-dir: names {options.data_dir}, and the argument {name} names {folder}; leave one of them out"
        )


def add_output(parser: Parser, *forms: str) -> None:
    parser.add_argument(
        "-o", "--output", choices=("text", *forms), default="text", help="(default text, for people)"
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours; auto is on a terminal, unless NO_COLOR is set",
    )


def add_object(parser: Any) -> None:
    """Add the arguments that name an object: TYPE/NAME, as of kubectl, or TYPE and NAME (see `split_object`)."""
    parser.add_argument("kind", metavar="TYPE/NAME", help=f"such as deploy/web; TYPE is {KIND}")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="if it is not there; or NAMESPACE/NAME"
    )
    parser.set_defaults(names_object=True)


def split_object(options: Options) -> None:
    """Split TYPE/NAME of a command that has `add_object`."""
    if getattr(options, "names_object", False):
        options.kind, options.name = type_and_name(options.kind, options.name)
        if not options.name:
            raise UsageError(f"{options.kind!r} names no object; write TYPE/NAME, such as deploy/web")


def type_and_name(kind: str, name: str) -> tuple[str, str]:
    """The type and the name of TYPE/NAME, or of two arguments; either may be empty."""
    first, slash, rest = kind.partition("/")
    if slash and name:
        raise UsageError(f"{name!r}: {kind} names an object already; leave one of them out")
    return first, rest or name


def add_uid(parser: Parser) -> None:
    parser.add_argument("--uid", default="", metavar="UID", help="which of the objects that had this name")


def add_kinds(parser: Parser) -> None:
    parser.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help=f"{KIND}; may be repeated"
    )
    parser.add_argument("--name", metavar="NAME", help="objects of this name; * is a wildcard")


def add_limit(parser: Parser) -> None:
    parser.add_argument("--limit", "--tail", type=count, metavar="N", help="only the newest N")


def add_managed_fields(parser: Parser) -> None:
    parser.add_argument(
        "--show-managed-fields", action="store_true", help="compare metadata.managedFields too"
    )


def add_show_secrets(parser: Parser) -> None:
    parser.add_argument(
        "--show-secrets", action="store_true", help="print the values of Secrets (default ***)"
    )


moment = argument_type(parse_moment)


def ends(text: str) -> tuple[Moment, Moment]:
    """Parse the two ends of a difference, A..B."""
    first, dots, second = text.partition("..")
    if not dots or not first:
        raise argparse.ArgumentTypeError(
            f"{text!r} are not two versions or times: A..B, or A.. for the present"
        )
    return moment(first), moment(second) if second else Moment()


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version; `rewound log` shows them")
    return int(text)
