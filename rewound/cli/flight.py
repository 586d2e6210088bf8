"""`rewound flight`: record a cluster without end, and serve the recording while it grows.

FOLDER is a data folder. The first start lists and watches every kind of the cluster and records into it; later ones
continue there, and serve at once what they have. Ctrl-C and SIGTERM end it. Values of Secrets are masked unless
--with-secrets is given.

rewound flight cluster                                     what $KUBECONFIG may read
rewound flight --kubeconfig prod.yaml --secure-port 7443 prod
rewound open --data-dir prod                               the page, in a browser
KUBECONFIG=prod/admin.kubeconfig rewound log -f            who does what, from the recording
rewound flight --cluster prod=prod.yaml --cluster staging=all.yaml@staging clusters
                                                           several, each in a folder, with a front page for all
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from rewound.actors.certificates.names import address_of
from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, chosen_target
from rewound.cli.audit_webhook import add_audit_webhook, chosen_sink
from rewound.cli.record import EscapingFormatter, ProgressLine, kinds_of, recording_session
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.gateway.settings.checks import SettingsError
from rewound.journal.errors import JournalError
from rewound.server.flags.values import Retention, argument_type, parse_retention, port, size

if TYPE_CHECKING:
    import trio

    from rewound.gateway.settings.settings import Addresses, Settings
    from rewound.recording.flight.clusters import Cluster
    from rewound.recording.flight.flight import Flight
    from rewound.recording.flight.lease import Lease, Send
    from rewound.recording.flight.retention import Bounds

AGENT = "rewound-flight"  # in the User-Agent: not that of commands
SECURE_PORT = 6445
ACCESS_LOG = "access.log"
NO_LOG = "none"
RETENTION = "7d"
LEASES, LEASE_RENEWALS = (
    "leases",
    3600.0,
)  # as in a server: a thousand idle nodes write gigabytes of renewals a day
SMALLEST = 64 << 20  # bytes
SHORTEST = 60.0  # seconds of --forget


def flight(arguments: Sequence[str]) -> int:
    parser = Parser("rewound flight", __doc__)
    add_flags(parser)
    try:
        options = parser.parse_args(arguments)
        return _fly_all(options, arguments) if options.cluster and not options.only else _fly(options)
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
        "--forget",
        type=argument_type(_forgotten),
        default={},
        metavar="KIND=TIME,...",
        help="of these kinds, such as events=1d, all that is older goes, but for what present objects need (default "
        "none)",
    )
    bounds.add_argument(
        "--max-disk",
        type=size,
        default=0,
        metavar="SIZE",
        help="how large the journal may become, such as 20Gi; the oldest events go first (default no limit)",
    )
    parser.add_argument(
        "--lease",
        default="",
        metavar="NAMESPACE/NAME",
        help="record only while this one, of several with the same folder, holds this Lease of the recorded cluster",
    )
    add_audit_webhook(parser)
    alerts = parser.add_argument_group("alerts")
    alerts.add_argument(
        "--rules",
        default="",
        metavar="FILE",
        help="rules over the events, and where alerts go; configmap:NAMESPACE/NAME is one of the recorded cluster; "
        "both are followed",
    )
    alerts.add_argument(
        "--page-url",
        default="",
        metavar="URL",
        help="under which people reach this server, for the links of alerts",
    )
    several = parser.add_argument_group("several clusters")
    several.add_argument(
        "--cluster",
        action="append",
        default=[],
        metavar="NAME=KUBECONFIG[@CONTEXT]",
        help="record this cluster into FOLDER/NAME, in a process of its own; may be repeated",
    )
    several.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help="record only this one of the clusters, without a front page",
    )
    several.add_argument("--ends-with-stdin", action="store_true", help=argparse.SUPPRESS)
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
        help=f"HTTPS; 0 is off (default {SECURE_PORT}); with --cluster that of the front page, and each cluster has "
        "the port after that of the one before",
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
    from rewound.client.session import Session
    from rewound.gateway.settings.settings import Settings
    from rewound.journal.log import Journal
    from rewound.recording.flight.flight import Flight, FlightOptions, flight_settings
    from rewound.recording.flight.lease import Sender, run_leased
    from rewound.recording.record.recorder import RecordOptions

    _log()
    if options.only:
        _choose(options)
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
    _check_ports(options)
    if options.page_for_everyone:
        _check_everyone(options)
    target = chosen_target(options)
    beside = []
    if options.rules:
        from rewound.recording.rules.source import source_of
        from rewound.recording.rules.watch import RulesBeside

        events = Session(target, AGENT)
        beside.append(RulesBeside(source_of(options.rules, events), options.page_url, events))

    def make_settings(journal: Journal) -> Settings:
        return flight_settings(
            journal,
            options.folder,
            Settings,
            for_everyone=options.page_for_everyone,
            with_secrets=options.with_secrets,
            access_log=_access_log(options),
            **given,
        )

    line = ProgressLine()
    sender = Sender(lambda: Session(target, AGENT))
    lease = None if not options.lease else _lease(options, sender)

    async def fly(stop: trio.Event) -> None:
        async with recording_session(target, AGENT, websocket=options.websocket) as session:
            one = Flight(
                session, options.folder, chosen, make_settings, beside=beside, report=line, lease=lease
            )

            def ready(addresses: Addresses) -> None:
                print(_banner(one, addresses), flush=True)

            await one.run(ready, stop)

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)
            if options.ends_with_stdin:
                nursery.start_soon(_stop_with_stdin, stop)
            try:
                if lease is None:
                    await fly(stop)
                else:
                    await run_leased(lease, options.folder, partial(_stand_by, options, lease), fly, stop)
            finally:
                sender.close()
            nursery.cancel_scope.cancel()

    with begin_early(wanted=bool(options.secure_port)), line:
        return run_process(run, Settings(data_dir=options.folder, **given))


def _fly_all(options: Options, arguments: Sequence[str]) -> int:
    """Record several clusters, each with the same flags in a process of its own."""
    import trio

    from rewound.cli.replay.serving import run_process, stop_on_signal
    from rewound.gateway.settings.settings import Settings
    from rewound.recording.flight.clusters import Clusters, front_url, parse_clusters

    _log()
    clusters = parse_clusters(options.cluster, options.folder, (options.secure_port, options.insecure_port))
    _check_all(options, clusters)
    bind = options.bind_address or "127.0.0.1"

    def command(cluster: Cluster) -> list[str]:
        """The same command, for one of them. What follows `--` is no flag."""
        end = arguments.index("--") if "--" in arguments else len(arguments)
        flags = ["--only", cluster.name, "--ends-with-stdin"]
        return [sys.executable, "-m", "rewound", "flight", *arguments[:end], *flags, *arguments[end:]]

    ports = options.secure_port, options.insecure_port
    several = Clusters(
        options.folder, clusters, command, bind=bind, ports=ports, for_everyone=options.page_for_everyone
    )

    async def run() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal, stop)

            def ready(addresses: Addresses) -> None:
                lines = [f"Recording {len(clusters)} clusters into {options.folder}."]
                lines.append(f"  front page  {front_url(addresses, bind)}")
                lines.append(f"  kubeconfig  {options.folder / 'kubeconfig'}, with a context for each")
                print("\n".join([*lines, "", "Ctrl-C ends it; the same command goes on.", ""]), flush=True)

            await several.run(ready, stop)
            nursery.cancel_scope.cancel()

    given = {"secure_port": options.secure_port, "insecure_port": options.insecure_port}
    return run_process(run, Settings(data_dir=options.folder, **given))


def _check_all(options: Options, clusters: Sequence[Cluster]) -> None:
    """Raises UsageError for what one process would refuse, and for what several clusters cannot share."""
    for name in ("kubeconfig", "context", "server", "token", "certificate_authority"):
        if getattr(options, name):
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} and --cluster: give one of them; a cluster is NAME=KUBECONFIG[@CONTEXT]"
            )
    if options.audit_log:
        raise UsageError(
            "--audit-log: a file is of one cluster; use --audit-webhook-port, or a command for each cluster"
        )
    if options.access_log not in (None, "-", NO_LOG):
        raise UsageError(
            f"--access-log: every cluster has a file of its own, FOLDER/NAME/{ACCESS_LOG}; leave it out, or give - or "
            f"{NO_LOG}"
        )
    for cluster in clusters:
        _of_cluster(options, cluster)
    if (options.folder / "recording.json").exists():
        raise Failure(f"{options.folder} has the recording of one cluster; name another folder for several")
    _check_ports(options)
    chosen_sink(options)
    _bounds(options)
    if options.page_for_everyone:
        _check_everyone(options)


def _choose(options: Options) -> None:
    """Make the options those of the cluster of --only."""
    from rewound.recording.flight.clusters import parse_clusters

    clusters = parse_clusters(options.cluster, options.folder, (options.secure_port, options.insecure_port))
    for cluster in clusters:
        if cluster.name == options.only:
            for name, value in _of_cluster(options, cluster).items():
                setattr(options, name, value)
            return
    raise UsageError(f"--only: no --cluster has the name {escaped(options.only)}")


def _of_cluster(options: Options, cluster: Cluster) -> dict[str, object]:
    """The options of one of several clusters that differ from those that were given."""
    found: dict[str, object] = {
        "folder": cluster.folder,
        "kubeconfig": cluster.kubeconfig,
        "context": cluster.context,
        "secure_port": cluster.secure,
        "insecure_port": cluster.plain,
    }
    if options.audit_webhook_port:
        number = max(cluster.secure - options.secure_port, cluster.plain - options.insecure_port)
        found["audit_webhook_port"] = options.audit_webhook_port + number - 1
    if options.page_url:
        url = options.page_url.replace("{cluster}", cluster.name)
        found["page_url"] = url.replace("{port}", str(cluster.secure or cluster.plain))
    return found


def _lease(options: Options, send: Send) -> Lease:
    from rewound.recording.flight.lease import Lease, parse_lease

    return Lease(send, *parse_lease(options.lease))


async def _stand_by(options: Options, lease: Lease, stop: trio.Event) -> None:
    """Respond to probes at the ports where the recording would be served."""
    from rewound.recording.flight.lease import Standby
    from rewound.recording.flight.small_server import serve_paths

    ports, pki = (options.secure_port, options.insecure_port), options.folder / "standby-pki"
    print(f"Standing by for the Lease {options.lease} as {lease.identity}.", flush=True)
    await serve_paths(Standby(lease).handle, options.bind_address or "127.0.0.1", ports, pki, stop)


async def _stop_with_stdin(stop: trio.Event) -> None:
    """The process that records several clusters has ended when our stdin does."""
    import trio

    async with trio.lowlevel.FdStream(os.dup(0)) as stream:
        while await stream.receive_some(64):
            pass
    stop.set()


def _check_ports(options: Options) -> None:
    if not (options.secure_port or options.insecure_port):
        raise UsageError("--secure-port and --insecure-port: both are 0, so nobody could see the recording")


def _retention(text: str) -> Retention:
    """Parse 7d, or 7d,leases=2h, or only leases=2h."""
    return parse_retention(f"{RETENTION},{text}" if "=" in text.partition(",")[0] else text)


def _forgotten(text: str) -> dict[str, float]:
    """Parse events=1d,jobs.batch=6h."""
    if "=" not in text.partition(",")[0]:
        raise ValueError(f"{text!r} names no kind; write it like events=1d,pods=3d")
    found = dict(parse_retention(text).kinds)
    if short := [kind for kind, seconds in found.items() if seconds < SHORTEST]:
        raise ValueError(f"{short[0]}: the time is too short; give at least {SHORTEST:g}s")
    return found


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
    forgotten = {kind: seconds for kind, seconds in options.forget.items() if seconds < whole}
    return Bounds(kept.time, by_kind, options.max_disk, forgotten)


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
