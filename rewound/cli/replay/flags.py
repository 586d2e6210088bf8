"""The flags of `rewound replay`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rewound.cli.access.flags import Options, Parser
from rewound.cli.journal.flags import moment
from rewound.client.errors import UsageError
from rewound.recording.query.moments import parse_moment
from rewound.server.flags.values import duration, port

SECURE_PORT = 6444
DIFFERENT = 3  # the exit code of --exit-code
_OF_COPIES = (
    *("play", "without", "controllers", "keep", "show_secrets", "settle", "timeout", "ignore"),
    *("ignore_field", "kubernetes_version"),
)


class _Until(argparse.Action):
    """A moment; or an expression, as in earlier releases: none of these is a moment."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        try:
            namespace.to = parse_moment(values)
        except ValueError:
            namespace.stop_when = values


def add_flags(parser: Parser) -> None:
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a data folder or an exported journal")
    where = parser.add_argument_group("which moments")
    where.add_argument("--at", type=moment, metavar="MOMENT", help="show this moment (default: the end)")
    where.add_argument(
        "--since",
        dest="start",
        type=moment,
        metavar="MOMENT",
        help="play from this moment (default: the first)",
    )
    where.add_argument(
        "--until",
        dest="to",
        action=_Until,
        metavar="MOMENT",
        help="play to this moment (default: the end)",
    )
    where.add_argument(
        "--speed",
        metavar="SPEED",
        help="1x: in the recorded intervals (default); 10x; max: as fast as watchers read",
    )
    where.add_argument(
        "--stop-when", default="", metavar="EXPRESSION", help="stop after the event for which this holds"
    )
    # The names of earlier releases.
    where.add_argument("--from", dest="start", type=moment, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    where.add_argument("--to", type=moment, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    where.add_argument("--paused", action="store_true", help="do not play until a command or request says so")
    where.add_argument("--exit", action="store_true", help="end when it has played to the end")
    where.add_argument(
        "--exit-code",
        action="store_true",
        help=f"return {DIFFERENT} if --stop-when never held, or if the copy differs from what happened",
    )
    copy = parser.add_argument_group("a copy that is written to")
    copy.add_argument(
        "--writable",
        action="store_true",
        help="serve a copy that begins at the moment, and print at the end how it differs from what happened",
    )
    copy.add_argument(
        "--play",
        action="store_true",
        help="apply the recorded writes of others to it; --since, --until, --speed, --stop-when and --exit imply it",
    )
    copy.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out recorded writes of this user or field manager (* is a wildcard); may be repeated",
    )
    copy.add_argument(
        "--controllers",
        action="append",
        metavar="NAME,...",
        help="of the server, as for rewound serve, or none",
    )
    copy.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the copy as this data folder")
    copy.add_argument(
        "--settle",
        type=duration,
        metavar="TIME",
        help="end when no client has written for this long (5s), after the recorded writes, if they are played",
    )
    copy.add_argument(
        "--timeout", type=duration, metavar="TIME", help="end after this long, whatever happens (5m)"
    )
    copy.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="KIND",
        help="do not compare objects of this kind (leases, events; * is a wildcard); may be repeated",
    )
    copy.add_argument(
        "--ignore-field",
        action="append",
        default=[],
        metavar="PATH",
        help="do not compare this field (status.conditions[*].lastTransitionTime); may be repeated",
    )
    copy.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        help="of the difference, or with --exit of where it stopped (default text)",
    )
    copy.add_argument(
        "--show-secrets", action="store_true", help="print the values of Secrets in it (default ***)"
    )
    parser.set_defaults(command=())  # the arguments after --
    rules = parser.add_argument_group("rules")
    rules.add_argument(
        "--profile", metavar="NAME", help="documents or v1.25 (default: that of the journal's dialect)"
    )
    rules.add_argument(
        "--kubernetes-version",
        metavar="VERSION",
        help="of a writable copy: this version, to which it is migrated (default: the one that was recorded)",
    )
    rules.add_argument("--rule", action="append", metavar="NAME=VALUE", help="one rule, whatever the profile")
    listeners = parser.add_argument_group("listeners and credentials")
    listeners.add_argument(
        "--bind-address", metavar="ADDRESS", help="address to listen on (default 127.0.0.1)"
    )
    listeners.add_argument(
        "--secure-port",
        type=port,
        default=SECURE_PORT,
        metavar="PORT",
        help=f"HTTPS; 0 is off (default {SECURE_PORT})",
    )
    listeners.add_argument(
        "--insecure-port", type=port, default=0, metavar="PORT", help="plain HTTP on loopback (default off)"
    )
    listeners.add_argument(
        "--token-auth-file", type=Path, metavar="FILE", help='CSV lines of token,user,uid[,"group1,group2"]'
    )
    listeners.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="write the credentials of the administrator to this new file",
    )


def check_kubeconfig(file: Path | None) -> None:
    """Raises UsageError if the file cannot be created. One that exists is kept: it may be for other clusters."""
    if file is None:
        return
    if file.exists():
        raise UsageError(f"--kubeconfig: {file} exists already; it is written, so name a new file")
    if not file.parent.is_dir():
        raise UsageError(f"--kubeconfig: there is no folder {file.parent}")


def plays(options: Options) -> bool:
    """Whether to play from the start. Raises UsageError for flags that do not fit together."""
    if options.at is not None and options.start is not None:
        raise UsageError("--at and --since: give one of them, where it begins")
    if options.exit and options.paused and not options.writable:
        raise UsageError("--exit and --paused: it would never end")
    if not options.writable:
        if options.command:
            raise UsageError("a command after -- : only with --writable")
        for flag in _OF_COPIES:
            if getattr(options, flag):
                raise UsageError(f"--{flag.replace('_', '-')}: only with --writable")
        if options.output and not options.exit:
            raise UsageError("--output: only with --writable or --exit, which end with a report")
        if options.exit_code and not (options.stop_when and options.exit):
            raise UsageError("--exit-code: only with --writable, or with --stop-when and --exit")
    asked = asks_to_play(options)
    for flag in ("paused", "without"):
        if options.writable and getattr(options, flag) and not asked:
            raise UsageError(f"--{flag}: it applies no recorded writes; add --play")
    return asked and not (options.paused and not options.writable)


def asks_to_play(options: Options) -> bool:
    """Whether to play, at once or when a client asks for it."""
    moments = options.start is not None or options.to is not None
    return moments or bool(options.speed or options.stop_when or options.exit or options.play)
