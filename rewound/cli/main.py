"""The command `rewound`. Each subcommand is imported when it runs, so that the others start fast."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from rewound import platform_refusal

Run = Callable[[Sequence[str]], int]

# Containers between two collections. A command imports modules, which stay, and most end before there is garbage: with
# Python's default of 700, collections that find nothing take a tenth of its CPU.
_COLLECT_AFTER = 50_000


def _serve(arguments: Sequence[str]) -> int:
    """Serve, without garbage collection until the server is ready: a start creates modules and kinds, which stay.

    Later collections skip them too, because none of them ever becomes garbage.
    """
    gc.disable()
    try:
        from rewound.cli.serve import serve

        return serve(arguments)
    finally:
        gc.enable()


def _in(module: str, function: str, *first: str) -> Run:
    """A command that calls a function of a module of `rewound.cli`, with `arguments` before those of the user."""

    def run(arguments: Sequence[str]) -> int:
        found = getattr(import_module(f"rewound.cli.{module}"), function)
        code: int = found(*first, arguments)
        return code

    return run


def _of_journal(name: str, arguments: Sequence[str]) -> int:
    from rewound.cli.journal.commands import journal

    return journal([name, *arguments], "rewound")


def _journal(arguments: Sequence[str]) -> int:
    """Run `rewound journal COMMAND`, including `journal import audit` and `journal import kwok`."""
    if arguments[:1] == ["import"] and arguments[1:2] in (["audit"], ["kwok"]):
        run, _ = COMMANDS["import"]
        return run(arguments[1:])
    from rewound.cli.journal.commands import journal

    return journal(arguments)


COMMANDS: dict[str, tuple[Run, str]] = {
    "serve": (_serve, "serve the API; `rewound serve --help` lists the flags"),
    "config": (_in("config", "config"), "`config print`: the settings of `serve`, and where each comes from"),
    "up": (
        _in("local.commands", "run", "up"),
        "start a cluster in the background and make it kubectl's context",
    ),
    "down": (_in("local.commands", "run", "down"), "stop such a cluster; --delete removes its data"),
    "list": (_in("local.commands", "run", "list"), "the clusters of `rewound up`"),
    "status": (_in("local.commands", "run", "status"), "one of them: whether it runs, where it is"),
    "logs": (_in("local.commands", "run", "logs"), "what its server logs; -f follows"),
    "scale": (_in("scale", "scale"), "fill a cluster with nodes, pods or other objects, from templates"),
    "chaos": (
        _in("chaos", "chaos"),
        "make nodes, zones, images, clocks and requests fail, by schedule and seed",
    ),
    "dev": (_in("dev", "dev"), "run a command with a server of its own; prints the story when it fails"),
    "envtest": (
        _in("envtest", "envtest"),
        "print a folder for KUBEBUILDER_ASSETS: controller-runtime's envtest starts Rewound",
    ),
    "open": (_in("open.command", "run"), "show the journal in a browser, signed in"),
    "log": (partial(_of_journal, "log"), "who did what, when; -f follows"),
    "history": (partial(_of_journal, "history"), "the versions of an object, and what changed"),
    "show": (partial(_of_journal, "show"), "one event with its object, and what it changed"),
    "at": (partial(_of_journal, "at"), "objects as they were at a version or a time"),
    "diff": (partial(_of_journal, "diff"), "what changed between two versions or times"),
    "since": (partial(_of_journal, "since"), "what differs from a moment when all was well, without noise"),
    "compare": (
        partial(_of_journal, "compare"),
        "what differs between two recordings, or two moments of one",
    ),
    "blame": (partial(_of_journal, "blame"), "who set each field of an object"),
    "suspects": (
        partial(_of_journal, "suspects"),
        "what changed before an object broke, ranked, with reasons",
    ),
    "why": (partial(_of_journal, "why"), "which node won a pod and by what, and which nodes do not fit"),
    "rollback": (partial(_of_journal, "rollback"), "update an object to what it was"),
    "undelete": (partial(_of_journal, "undelete"), "create a deleted object again"),
    "replay": (_in("replay.command", "run"), "serve a journal as it was, and play it"),
    "record": (_in("record", "record"), "capture a running server into a journal"),
    "flight": (
        _in("flight", "flight"),
        "record a cluster without end, and serve the recording while it grows",
    ),
    "stats": (partial(_of_journal, "stats"), "sizes, counts and rates of a journal"),
    "verify": (partial(_of_journal, "verify"), "check every record of a data folder or a file"),
    "recover": (partial(_of_journal, "recover"), "save what is sound in a damaged folder into a new one"),
    "export": (partial(_of_journal, "export"), "write a journal to one portable file"),
    "import": (
        _in("importing", "run"),
        "create a new data folder from such a file; `import audit` from an audit log, `import kwok`",
    ),
    "upgrade-check": (
        _in("upgrade_check", "upgrade_check"),
        "what another version of Kubernetes would refuse, drop or set otherwise",
    ),
    "policy": (
        _in("policy", "policy"),
        "`policy test`: which recorded writes admission policies would have denied or changed",
    ),
    "rules": (_in("rules", "rules"), "`rules test`: which alerts rules would have given; `rules list`"),
    "cel": (_in("cel", "cel"), "evaluate a CEL expression on an object of a file: result, type, cost"),
    "journal": (
        _journal,
        "the commands from log to import by their longer names: `rewound journal log`",
    ),
    "doctor": (_in("doctor", "doctor"), "what of this machine and data folder should change, and how"),
    "backup": (_in("backup", "backup"), "write the journal of a running server to a file; --follow goes on"),
    "restore": (
        _in("restore", "restore"),
        "create a data folder from a backup, at any version or time in it",
    ),
    "promote": (_in("promote", "promote"), "make a standby (`rewound serve --follow`) the leader"),
    "kubeconfig": (
        _in("access.commands", "run", "kubeconfig"),
        "write a kubeconfig file for a user, a service account or a token",
    ),
    "token": (
        _in("access.commands", "run", "token"),
        "a token of a service account; `rewound token bootstrap` for a node that joins",
    ),
    "certificate": (
        _in("access.commands", "run", "certificate"),
        "approve or deny requests for certificates",
    ),
    "can-i": (_in("access.commands", "run", "can-i"), "whether you may do something, and why"),
    "cluster-info": (
        _in("access.commands", "run", "cluster-info"),
        "verify cluster-info with a bootstrap token",
    ),
    "completion": (
        _in("completion", "completion"),
        "print a script for bash, zsh or fish: commands, flags, kinds and names",
    ),
}
# Names of earlier releases, and of what scripts call: no help lists them.
UNLISTED: dict[str, Run] = {
    "state": partial(_of_journal, "state"),
    "__complete": _in("completion", "complete"),  # for the scripts of `rewound completion`
}
_LINES = "".join(f"  rewound {name:13} {text}\n" for name, (_, text) in COMMANDS.items())
USAGE = f"""\
usage: rewound <command> [flags]; `rewound help <command>` explains one

{_LINES}  rewound --version     the release, and the versions of Kubernetes that it serves
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; without `arguments` that of this process."""
    if arguments is None:
        gc.set_threshold(_COLLECT_AFTER)
        atexit.register(
            gc.freeze
        )  # what is left ends with the process: nobody needs to look for garbage in it
    if refusal := platform_refusal():
        print(f"rewound: {refusal}", file=sys.stderr)
        return 2
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command in ("--help", "-h", "help"):
        if not rest or rest[0].startswith("-"):
            print(USAGE, end="")
            return 0
        command, rest = rest[0], [*rest[1:], "--help"]
    if command in COMMANDS or command in UNLISTED:
        run = UNLISTED.get(command) or COMMANDS[command][0]
        return run(rest)
    if command in ("--version", "version"):
        from rewound.actors.versions.version import FIRST, NEWEST
        from rewound.release import RELEASE

        print(f"rewound {RELEASE}\nKubernetes {FIRST} to {NEWEST}")
        return 0
    if not command:
        print(USAGE, end="", file=sys.stderr)
    else:
        print(_unknown(command), file=sys.stderr)
    return 2


def _unknown(command: str) -> str:
    import difflib

    if command in ("apply", "create", "delete", "describe", "edit", "get", "patch"):
        lists = "; `rewound at now nodes` lists objects without it" if command == "get" else ""
        return f"rewound: {command!r} is a command of kubectl, which works with this server{lists}"
    near = difflib.get_close_matches(command, COMMANDS, n=1)
    meant = f"did you mean `rewound {near[0]}`? " if near else ""
    return f"rewound: {command!r} is not a command; {meant}`rewound --help` lists them"


if __name__ == "__main__":
    sys.exit(main())
