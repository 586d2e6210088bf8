"""`rewound flight`: record a cluster without end, and serve the recording while it grows.

FOLDER is a data folder. The first start lists and watches every kind of the cluster and records into it; later ones
continue there, and serve at once what they have. Ctrl-C and SIGTERM end it. Values of Secrets are masked unless
--with-secrets is given.

rewound flight cluster                                     what $KUBECONFIG may read
rewound flight --kubeconfig prod.yaml --secure-port 7443 prod
rewound open --data-dir prod                               the page, in a browser
KUBECONFIG=prod/admin.kubeconfig rewound log -f            who does what, from the recording
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from rewound.actors.certificates.names import address_of
from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, chosen_target
from rewound.cli.audit_webhook import add_audit_webhook, chosen_sink
from rewound.cli.record import EscapingFormatter, ProgressLine, kinds_of
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.gateway.settings.checks import SettingsError
from rewound.journal.errors import JournalError
from rewound.server.flags.values import Retention, argument_type, parse_retention, port, size

if TYPE_CHECKING:
    from rewound.gateway.settings.settings import Addresses, Settings
    from rewound.recording.flight.flight import Flight
    from rewound.recording.flight.retention import Bounds

SECURE_PORT = 6445
ACCESS_LOG = "access.log"
NO_LOG = "none"
RETENTION = "7d"
LEASES, LEASE_RENEWALS = (
    "leases",
    3600.0,
)  # as in a server: a thousand idle nodes write gigabytes of renewals a day
SMALLEST = 64 << 20  # bytes


def flight(arguments: Sequence[str]) -> int:
    parser = Parser("rewound flight", __doc__)
    add_flags(parser)
    try:
        return _fly(parser.parse_args(arguments))
    except (UsageError, SettingsError) as error:
        return _fail(error, 2)
    except (ClientError, Failure, JournalError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a data folder: a new one, or its last recording"
    )
    what = parser.add_argument_group("what to record")
    what.add_argument(
        "--kinds", metavar="KIND,...", help="only these: pods, cm, deployments.apps (default all)"
    )
    what.add_argument(
        "--with-secrets", action="store_true", help="record the values of Secrets (default: masked)"
    )
    what.add_argument(
        "--websocket",
        action="store_true",
        help="watch over WebSockets, if something on the way to the server holds back or cuts long responses",
    )
    what.add_argument(
        "--audit-log",
        default="",
        metavar="FILE",
        help="follow this audit log of the server (- is stdin): users, verbs, sources, refused requests",
    )
    bounds = parser.add_argument_group("how much to keep")
    bounds.add_argument(
        "--retention",
        type=argument_type(_retention),
        default=_retention(RETENTION),
        metavar="TIME[,KIND=TIME,...]",
        help="how long events are kept; 0 is forever. Of a KIND, such as leases, events that changed nothing but times "
        f"go earlier (default {RETENTION},{LEASES}=1h)",
    )
    bounds.add_argument(
        "--max-disk",
        type=size,
        default=0,
        metavar="SIZE",
        help="how large the journal may become, such as 20Gi; the oldest events go first (default no limit)",
    )
    add_audit_webhook(parser)
    alerts = parser.add_argument_group("alerts")
    alerts.add_argument(
        "--rules", type=Path, metavar="FILE", help="rules over the events, and where alerts go; followed"
    )
    alerts.add_argument(
        "--page-url",
        default="",
        metavar="URL",
        help="under which people reach this server, for the links of alerts",
    )
    add_connection(parser, "only what is in this namespace (default: everything)")
    listeners = parser.add_argument_group("listeners and credentials of the recording's server")
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
        "--page-for-everyone",
        action="store_true",
        help="on loopback only: nobody signs in, and everybody sees everything (default: users sign in with their "
        "token or certificate of the recorded cluster, and see what they may read there)",
    )
    listeners.add_argument(
        "--access-log",
        metavar="FILE",
        help=f"who looked at what, as audit events (default FOLDER/{ACCESS_LOG}; - is stdout, {NO_LOG} turns it off)",
    )
    listeners.add_argument(
        "--token-auth-file", type=Path, metavar="FILE", help='CSV lines of token,user,uid[,"group1,group2"]'
    )


def _fly(options: Options) -> int:
    # Imported only now: reporting a wrong flag should not take as long as a start.
    import trio

    from rewound.actors.certificates.issuing_process import begin_early
    from rewound.cli.replay.serving import run_process, stop_on_signal
    from rewound.client.streaming import StreamingSession
    from rewound.gateway.settings.settings import Settings
    from rewound.journal.log import Journal
    from rewound.recording.flight.flight import Flight, FlightOptions, flight_settings
    from rewound.recording.record.recorder import RecordOptions

    _log()
    if options.folder.is_file():
        raise Failure(f"{options.folder} is a file; name a folder")
    chosen = FlightOptions(
        RecordOptions(
            kinds_of(options.kinds),
            options.namespace,
            options.with_secrets,
            None,
            options.audit_log,
            chosen_sink(options),
        ),
        _bounds(options),
        for_everyone=options.page_for_everyone,
    )
    given = {
        name: value
        for name in ("bind_address", "secure_port", "insecure_port", "token_auth_file")
        if (value := getattr(options, name)) is not None
    }
    if not (options.secure_port or options.insecure_port):
        raise UsageError("--secure-port and --insecure-port: both are 0, so nobody could see the recording")
    if options.page_for_everyone:
        _check_everyone(options)
    kind = StreamingSession
    if options.websocket:
        from rewound.client.websocket import WebSocketSession

        kind = WebSocketSession
    target = chosen_target(options)
    session = kind(target)
    beside = []
    if options.rules is not None:
        from rewound.client.session import Session
        from rewound.recording.rules.watch import RulesBeside

        beside.append(RulesBeside(options.rules, options.page_url, Session(target)))

    def make_settings(journal: Journal) -> Settings:
        return flight_settings(
            journal,
            options.folder,
            Settings,
            for_everyone=options.page_for_everyone,
            access_log=_access_log(options),
            **given,
        )

    line = ProgressLine()
    one = Flight(session, options.folder, chosen, make_settings, beside=beside, report=line)

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses) -> None:
                print(_banner(one, addresses), flush=True)

            try:
                await one.run(ready, stop)
            finally:
                with trio.move_on_after(2, shield=True):
                    await session.aclose()
            nursery.cancel_scope.cancel()

    with begin_early(wanted=bool(options.secure_port)), line:
        return run_process(run, Settings(data_dir=options.folder, **given))


def _retention(text: str) -> Retention:
    """Parse 7d, or 7d,leases=2h, or only leases=2h."""
    return parse_retention(f"{RETENTION},{text}" if "=" in text.partition(",")[0] else text)


def _bounds(options: Options) -> Bounds:
    from rewound.recording.flight.retention import Bounds

    kept = options.retention
    whole = kept.time or inf
    named = any(kind.partition(".")[0] == LEASES for kind, _ in kept.kinds)
    wanted = ({} if named else {LEASES: LEASE_RENEWALS}) | dict(kept.kinds)
    by_kind = {kind: seconds for kind, seconds in wanted.items() if 0 < seconds < whole}
    if 0 < options.max_disk < SMALLEST:
        raise UsageError(
            f"--max-disk: {options.max_disk} bytes are too few; give at least {SMALLEST >> 20}Mi"
        )
    return Bounds(kept.time, by_kind, options.max_disk)


def _access_log(options: Options) -> str:
    if options.access_log is None:
        return str(options.folder / ACCESS_LOG)
    return "" if options.access_log == NO_LOG else str(options.access_log)


def _check_everyone(options: Options) -> None:
    """--page-for-everyone must not show a cluster to a network, nor the values of its Secrets to anybody."""
    address = address_of(options.bind_address) if options.bind_address else None
    if options.bind_address and (address is None or not address.is_loopback):
        raise UsageError(
            f"--page-for-everyone: {options.bind_address} can be reached from other machines; leave --bind-address "
            "out, or let users sign in"
        )
    if options.with_secrets:
        raise UsageError(
            "--page-for-everyone: everybody would see the values of Secrets; leave --with-secrets out"
        )


def _log() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("rewound: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("rewound.recording").setLevel(logging.INFO)


def _banner(one: Flight, addresses: Addresses) -> str:
    from rewound.cli.replay.serving import page_url
    from rewound.gateway.settings.server_config import host_and_port

    lines = [f"Recording {one.server_url} into {one.folder}."]
    if addresses.secure is not None:
        kubeconfig = one.folder / "admin.kubeconfig"
        lines.append(f"  secure      https://{host_and_port(*addresses.secure)}")
        lines.append(f"  kubeconfig  {kubeconfig}")
    if addresses.insecure is not None:
        lines.append(f"  plain       http://{host_and_port(*addresses.insecure)}")
    lines.append(f"  page        {page_url(addresses)}")
    if addresses.secure is not None:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
        lines += ["  rewound open        # the page, in a browser, signed in"]
    return "\n".join([*lines, "", "Read-only. Ctrl-C ends it; the same command goes on.", ""])


def _fail(error: Exception, code: int) -> int:
    print("rewound: " + "\n".join(map(escaped, str(error).split("\n"))), file=sys.stderr)
    return code
