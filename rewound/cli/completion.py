"""`rewound completion`: print a script by which a shell completes commands, flags, kinds, names and namespaces.

The script asks `rewound __complete`, which reads the server, data folder or file that the command line names, or the
one that the command would use. It gives up after three seconds, or one second of CPU, and prints no errors.

source <(rewound completion bash)                                     for this shell; a line for ~/.bashrc
rewound completion zsh > ~/.zfunc/_rewound                            a folder in $fpath
rewound completion fish > ~/.config/fish/completions/rewound.fish
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import run_command
from rewound.cli.man import SUBCOMMANDS, help_of
from rewound.client.errors import UsageError

# `rewound __complete WORD...` prints lines of a word, a tab and what it means; the last WORD is the incomplete one.
SCRIPTS = {
    "bash": """\
_rewound() {
    local IFS=$'\\n' line current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    for line in $(rewound __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _rewound rewound
""",
    "zsh": """\
#compdef rewound
_rewound() {
    local line
    local -a whole parts texts
    for line in "${(@f)$(rewound __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        if [[ ${line%%$'\\t'*} == */ ]]; then parts+=("${line%%$'\\t'*}")
        else whole+=("${line%%$'\\t'*}"); texts+=("${line/$'\\t'/  }"); fi
    done
    (( ${#parts} )) && compadd -S '' -a parts
    (( ${#whole} )) && compadd -l -d texts -a whole
    (( ${#parts} + ${#whole} )) || _files
}
if [[ $funcstack[1] == _rewound ]]; then _rewound "$@"; else compdef _rewound rewound; fi
""",
    "fish": """\
function __rewound_complete
    set -l found (rewound __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c rewound -f -a '(__rewound_complete)'
""",
}
_SECONDS, _CPU_SECONDS = 3.0, 1.0
_MOST = 500  # names
_FLAG = re.compile(
    r"^ {1,4}(?:(-\w)(?: \S+)?, )?(--[a-z][a-z0-9-]*)(?:[ =]([^ \n]+))?(?:\s{2,}(\S.*))?", re.MULTILINE
)
_OF_ONE_OBJECT = ("history", "blame", "suspects", "rollback", "undelete", "log")
_AFTER_A_MOMENT = ("at", "diff", "since")


def completion(arguments: Sequence[str]) -> int:
    parser = Parser("rewound completion", __doc__)
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help=", ".join(SCRIPTS))

    def run() -> int:
        print(SCRIPTS[parser.parse_args(arguments).shell], end="")
        return 0

    return run_command(run, ((UsageError, 2),))


def complete(words: Sequence[str]) -> int:
    """Print what may stand in the place of the last word. Never fails, and never takes long."""
    for timer, limit, ends in (
        (signal.ITIMER_REAL, _SECONDS, signal.SIGALRM),
        (signal.ITIMER_PROF, _CPU_SECONDS, signal.SIGPROF),
    ):
        signal.signal(ends, lambda *_: os._exit(0))
        signal.setitimer(timer, limit)
    real = sys.stderr
    with open(os.devnull, "w") as nothing, suppress(Exception, SystemExit):
        sys.stderr = nothing
        for found in candidates([one for one in words if one != "="] or [""]):
            print(found)
    sys.stderr = real
    return 0


def candidates(words: Sequence[str]) -> Iterator[str]:
    *before, current = words
    yield from (one for one in _possible(before, current) if one.startswith(current))


def _possible(before: Sequence[str], current: str) -> Iterator[str]:
    from rewound.cli.main import COMMANDS

    if not before or (before[0] == "help" and len(before) == 1):
        yield from (f"{name}\t{text}" for name, (_, text) in COMMANDS.items())
        return
    command, *rest = before
    if command == "journal" and rest:
        command, *rest = rest
    elif command in SUBCOMMANDS and not rest:
        yield from SUBCOMMANDS[command]
        if command in ("journal", "config", "policy", "rules", "completion"):
            return
    flags = _flags(before)
    if current.startswith("-"):
        yield from (f"{name}\t{text}".rstrip("\t") for name, (_, text) in flags.items())
    elif rest and rest[-1] in flags and flags[rest[-1]][0]:
        yield from _values(rest, flags[rest[-1]][0])
    else:
        yield from _arguments(command, rest, flags, current)


def _flags(before: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The flags of a command by name, with their metavar (empty for a switch) and their help."""
    named = [one for one in before[:2] if not one.startswith("-")]
    text = help_of(named if named[1:] and named[1] in SUBCOMMANDS.get(named[0], ()) else named[:1])
    found: dict[str, tuple[str, str]] = {}
    for short, name, metavar, meaning in _FLAG.findall(text):
        found |= dict.fromkeys(filter(None, (name, short)), (metavar, meaning))
    return found


def _values(rest: Sequence[str], metavar: str) -> Iterator[str]:
    flag = rest[-1]
    if metavar.startswith("{"):
        yield from metavar.strip("{}").split(",")
    elif flag in ("-n", "--namespace"):
        yield from _read(rest, "namespaces")
    elif metavar.startswith("KIND"):
        yield from _read(rest, "kinds")
    elif flag == "--kubernetes-version":
        from rewound.actors.versions.version import VERSIONS

        yield from map(str, VERSIONS)


def _arguments(
    command: str, rest: Sequence[str], flags: dict[str, tuple[str, str]], current: str
) -> Iterator[str]:
    """Kinds and names of objects, for commands that take them."""
    takes_value = {name for name, (metavar, _) in flags.items() if metavar}
    given = [
        one
        for at, one in enumerate(rest)
        if not one.startswith("-") and not (at and rest[at - 1] in takes_value)
    ]
    if command == "why":
        yield from _read(rest, "names", "pods")
        return
    if command in _AFTER_A_MOMENT and given:
        given = given[1:]
    elif command not in _OF_ONE_OBJECT:
        return
    kind, slash, _ = current.partition("/")
    if slash and not given:
        yield from (f"{kind}/{name}" for name in _read(rest, "names", kind))
    elif not given:
        yield from (f"{name}/" for name in _read(rest, "kinds"))
    elif len(given) == 1 and "/" not in given[0] and command != "log":
        yield from _read(rest, "names", given[0])


def _read(words: Sequence[str], what: str, kind: str = "") -> Iterator[str]:
    """Names from the server, folder or file that the words of a command choose."""
    from rewound.cli.journal.flags import add_source
    from rewound.cli.journal.opening import open_source

    parser = Parser("rewound", "")
    add_source(parser)
    # The last flag may have no value yet.
    given = [*words, ""] if words and words[-1] in ("-n", "--namespace") else list(words)
    options: Options = parser.parse_known_args(given, argparse.Namespace())[0]
    with open_source(options) as source:
        if what == "namespaces":
            yield from source.namespaces()
        elif what == "kinds":
            yield from sorted(one.type_name for one in source.kinds())
        else:
            found = source.kind(kind)
            wanted = options.namespace or source.namespace
            names = source.objects_named(found, _MOST)
            yield from sorted(
                {name for namespace, name in names if found.namespaced is False or namespace == wanted}
            )
