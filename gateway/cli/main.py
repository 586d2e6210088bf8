"""The command `rewound`. Each subcommand is imported when it runs, so that the others start fast."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

USAGE = """\
usage: rewound <command> [flags]

  rewound serve         serve the API; `rewound serve --help` lists the flags
  rewound journal       read the journal of a data folder; `rewound journal --help` lists the commands
  rewound backup        write the journal of a running server to a file; --follow goes on
  rewound restore       create a data folder from a backup, at any offset or time in it
  rewound promote       make a standby (`rewound serve --follow`) the leader
  rewound record        capture a running server into a journal
  rewound history       the versions of an object, and what changed
  rewound blame         who set each field of an object
  rewound at            objects as they were at a version or a time
  rewound rollback      update an object to what it was
  rewound undelete      create a deleted object again
  rewound replay        serve a journal as it was, and play it
  rewound dev           run a command with a server of its own; prints the story when it fails
  rewound envtest       print a folder for KUBEBUILDER_ASSETS: controller-runtime's envtest starts Rewound
  rewound kubeconfig    write a kubeconfig file for a user, a service account or a token
  rewound token         a token of a service account; `rewound token bootstrap` for a node that joins
  rewound certificate   approve or deny requests for certificates
  rewound can-i         whether you may do something, and why
  rewound cluster-info  verify cluster-info with a bootstrap token
  rewound --version     the release
"""
REWIND_COMMANDS = ("history", "blame", "at", "rollback", "undelete")
ACCESS_COMMANDS = ("kubeconfig", "token", "certificate", "can-i", "cluster-info")


def main(arguments: Sequence[str] | None = None) -> int:
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command == "serve":
        return _serve(rest)
    if command == "journal":
        from rewound.gateway.cli.journal.commands import journal

        return journal(rest)
    if command == "dev":
        from rewound.gateway.cli.dev import dev

        return dev(rest)
    if command == "envtest":
        from rewound.gateway.cli.envtest.command import envtest

        return envtest(rest)
    if command == "backup":
        from rewound.gateway.cli.backup import backup

        return backup(rest)
    if command == "restore":
        from rewound.gateway.cli.restore import restore

        return restore(rest)
    if command == "promote":
        from rewound.gateway.cli.promote import promote

        return promote(rest)
    if command == "record":
        from rewound.gateway.cli.record import record

        return record(rest)
    if command in REWIND_COMMANDS:
        from rewound.gateway.cli.rewind.commands import run as run_rewind

        return run_rewind(command, rest)
    if command == "replay":
        from rewound.gateway.cli.replay.command import run as run_replay

        return run_replay(rest)
    if command in ACCESS_COMMANDS:
        from rewound.gateway.cli.access.commands import run

        return run(command, rest)
    if command in ("--version", "version"):
        from rewound.gateway.release import RELEASE

        print(f"rewound {RELEASE}")
        return 0
    if command in ("--help", "-h", "help"):
        print(USAGE, end="")
        return 0
    wrong = f"rewound: {command!r} is not a command\n\n" if command else ""
    print(wrong + USAGE, end="", file=sys.stderr)
    return 2


def _serve(arguments: Sequence[str]) -> int:
    """Without garbage collection until the server is ready: a start creates modules and kinds, which stay.

    They are then exempt from every later collection, too, which would visit them in vain.
    """
    gc.disable()
    try:
        from rewound.gateway.cli.serve import serve

        return serve(arguments)
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
