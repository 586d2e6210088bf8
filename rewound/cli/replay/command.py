"""`rewound replay`: serve a journal as it was, play it, and let controllers write to a copy of it.

SOURCE is a data folder (of a server that has stopped, of one that runs, or a copy) or a file that `rewound journal
export` or `rewound record` wrote. It is never changed. The server shows one moment, which you move:

  rewound replay backup.journal.gz                       the end of a file
  rewound replay rewound-data --at 12:03                 as it was at a time
  rewound replay rewound-data --since 12:00 --speed 10x  play what happened since, into open watches
  rewound replay rewound-data --since 1042 --speed max --stop-when 'event.kind == "Pod" && event.removed'

  rewound replay rewound-data --at 1042 --writable       a copy, to which a controller can write
  rewound replay rewound-data --since 1042 --writable --paused --without my-controller --speed max --exit
  rewound replay rewound-data --since 1042 --writable --without my-controller --settle 5s --exit-code -- ./my-controller

A COMMAND after -- runs beside a writable copy, with KUBECONFIG of it; its output goes to stderr. Recorded writes begin
when it has begun to watch.

Exit codes: 1 if SOURCE cannot be read, 2 for wrong flags, and with --exit-code 3 if --stop-when never held, or if the
copy ends otherwise than the recording.

On a terminal it takes commands: play [SPEED], pause, step [N], back [N], goto MOMENT, status, quit. Programs send the
same to /debug/rewound/replay: kubectl create --raw /debug/rewound/replay -f - <<< '{"action": "step", "count": 2}'

A MOMENT is a version (1042), a time (2026-11-15T04:07:33Z), a time of day (12:03) or how long ago (10m). An EXPRESSION
is in CEL, with the variables event (verb, user, manager, resource, group, kind, namespace, name, version, removed),
object and old.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rewound.actors.errors import BadRequest
from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Parser
from rewound.cli.replay.flags import add_flags, check_kubeconfig, plays
from rewound.client.errors import UsageError
from rewound.gateway.settings.checks import SettingsError
from rewound.journal.errors import JournalError


def run(arguments: Sequence[str]) -> int:
    parser = Parser("rewound replay", __doc__)
    add_flags(parser)
    # Imported only now: reporting a wrong flag should not take as long as a start.
    try:
        options = parser.parse_args(_before_command(arguments))
        options.command = [*arguments[len(_before_command(arguments)) + 1 :]]
        plays(options)  # refuses what does not fit together, before anything starts
        check_kubeconfig(options.kubeconfig)
        from rewound.cli.replay.serving import serve
        from rewound.recording.replay.until import BadExpression

        try:
            return serve(options)
        except BadExpression as error:
            raise UsageError(f"--stop-when: {error}") from error
    except (UsageError, SettingsError, BadRequest) as error:
        return _fail(error, 2)
    except (JournalError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130


def _before_command(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _fail(error: Exception, code: int) -> int:
    text = "\n".join(map(escaped, str(error).split("\n")))
    print(f"rewound: {text}", file=sys.stderr, flush=True)
    return code
