"""The flags of every command that talks to a server, and the parser that reports each mistake in one sentence."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rewound.client.errors import UsageError

if TYPE_CHECKING:
    from rewound.client.session import Session
    from rewound.client.target import Target

Options = Any  # argparse.Namespace: its attributes are the flags


def _not_empty(text: str) -> str:
    """Refuse an empty value, such as that of an unset shell variable: the command would act as the wrong user."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; give a value, or leave the flag out")
    return text


class _Value(argparse.Action):
    """A value that is not empty. A `type` would check the default too."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            setattr(namespace, self.dest, _not_empty(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from error


class Parser(argparse.ArgumentParser):
    """Parses the flags of a command. `text` is its docstring; all but the first line is the help."""

    def __init__(self, name: str, text: str | None) -> None:
        super().__init__(
            prog=name,
            description=(text or "").partition("\n\n")[2].strip("\n"),
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34),
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def add_connection(parser: Any, namespace: str = "instead of that of the context") -> None:
    """Add the flags that choose a server and a user. `namespace` is the help of --namespace."""
    group = parser.add_argument_group("which server, and as whom")
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="(default $KUBECONFIG, ./rewound-data/admin.kubeconfig or ~/.kube/config)",
    )
    group.add_argument("--context", default="", metavar="NAME", help="a context of the file")
    group.add_argument("-s", "--server", default="", metavar="URL", help="instead of that of the file")
    group.add_argument(
        "--certificate-authority",
        type=Path,
        metavar="FILE",
        help="CA of the server, instead of that of the file",
    )
    group.add_argument(
        "--token",
        action=_Value,
        default="",
        metavar="TOKEN",
        help="a bearer token, instead of the credentials of the file",
    )
    group.add_argument(
        "--as", dest="as_user", action=_Value, default="", metavar="USER", help="impersonate this user"
    )
    group.add_argument(
        "--as-group",
        action="append",
        type=_not_empty,
        default=[],
        metavar="GROUP",
        help="and this group; may be repeated",
    )
    group.add_argument("-n", "--namespace", default="", metavar="NAME", help=namespace)


def chosen_target(options: Options, namespace: str = "") -> Target:
    """The server that the flags of `add_connection` choose, and how to reach it."""
    from rewound.client.kubeconfig import Overrides, load_target

    return load_target(
        Overrides(
            kubeconfig=options.kubeconfig,
            context=options.context,
            server=options.server,
            certificate_authority=options.certificate_authority,
            token=options.token,
            impersonated_user=options.as_user,
            impersonated_groups=tuple(options.as_group),
            namespace=namespace,
        )
    )


def open_session(options: Options) -> Session:
    from rewound.client.session import Session

    return Session(chosen_target(options, options.namespace))


def account(text: str, namespace: str) -> tuple[str, str]:
    """Parse NAME or NAMESPACE/NAME of a service account."""
    before, slash, after = text.partition("/")
    found = (before, after) if slash else (namespace, text)
    if not all(found) or "/" in found[1]:
        raise UsageError(f"{text!r} names no account; write NAME or NAMESPACE/NAME")
    return found
