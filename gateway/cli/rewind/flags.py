"""Flags that the commands about history share: the object, the source, and the form of the output."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewound.gateway.cli.access.flags import Options, UsageError, add_connection, open_session
from rewound.gateway.cli.journal.query.moments import parse_moment, rfc3339
from rewound.gateway.cli.rewind.source import Source, Wanted


def add_object(parser: Any, *, name_optional: bool = False) -> None:
    parser.add_argument("kind", metavar="KIND", help="ConfigMap, configmaps, cm or deployments.apps")
    parser.add_argument(
        "name",
        metavar="NAME",
        help="of the object",
        **({"nargs": "?", "default": ""} if name_optional else {}),
    )


def add_source(parser: Any, *forms: str, has_secrets: bool = True) -> None:
    """`has_secrets`: whether Secrets may be among what is printed."""
    if forms:
        parser.add_argument("-o", "--output", choices=("text", *forms), default="text", help="(default text)")
    if has_secrets:
        parser.add_argument(
            "--show-secrets", action="store_true", help="print the values of Secrets (default ***)"
        )
    parser.add_argument(
        "--data-dir", type=Path, metavar="FOLDER", help="read this data folder instead of asking a server"
    )
    add_connection(parser)


def add_uid(parser: Any) -> None:
    parser.add_argument("--uid", default="", metavar="UID", help="which of the objects that had this name")


def moment(text: str) -> str:
    """A moment as the API takes it: a version or a time; empty for now."""
    try:
        found = parse_moment(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong
    if found.time is not None:
        return rfc3339(found.time)
    return "" if found.offset is None else str(found.offset)


def ends(text: str) -> str:
    """The ends of a difference, each as the API takes it."""
    first, dots, second = text.partition("..")
    if not dots or not first:
        raise argparse.ArgumentTypeError(
            f"{text!r} are not two versions or times: A..B, or A.. for the present"
        )
    return f"{moment(first)}..{moment(second) if second else ''}"


def wanted(options: Options) -> Wanted:
    if options.name in (".", ".."):
        raise UsageError(f"{options.name!r} is not a name")
    return Wanted(
        options.kind,
        options.name,
        options.namespace,
        getattr(options, "all_namespaces", False),
        getattr(options, "uid", ""),
    )


_OF_SERVERS = ("kubeconfig", "context", "server", "certificate_authority", "token", "as_user", "as_group")


def _check_no_server(options: Options) -> None:
    """Refuse flags about a server: a user who can read a folder reads everything in it."""
    for name in _OF_SERVERS:
        if getattr(options, name):
            flag = "--" + name.removesuffix("_user").replace("_", "-")
            raise UsageError(f"{flag}: has no effect with --data-dir; leave one of them out")


@contextmanager
def open_source(options: Options) -> Iterator[Source]:
    if options.data_dir is not None:
        _check_no_server(options)
        from rewound.gateway.cli.journal.query.folder import open_folder
        from rewound.gateway.cli.rewind.folder import Folder

        with open_folder(options.data_dir) as folder:
            yield Folder(folder)
        return
    from rewound.gateway.cli.rewind.server import Server

    with open_session(options) as session:
        yield Server(session)
