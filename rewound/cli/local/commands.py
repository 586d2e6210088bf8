"""The commands `rewound up`, `down`, `list`, `status` and `logs`: clusters that run in the background."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rewound.cli.access.flags import Options, Parser, add_connection
from rewound.cli.command import exit_on_sigterm, run_command
from rewound.cli.local.cluster import DEFAULT_NAME, HOST, LocalCluster, Stored, recorded_into, state_folder
from rewound.cli.typed import typed_name
from rewound.client.errors import ClientError, Failure, UsageError

NODES = 3
NOT_RUNNING = 3  # the exit code of `status`

_UP = """up

Start a cluster in the background, and make it the current context of your kubeconfig file. What is there already is
started again with its data, its port and the flags of its first start.

  rewound up                                          the cluster "default", with 3 simulated nodes
  rewound up shop --load manifests/                   another one, with these objects
  rewound up old --kubernetes-version 1.30 --nodes 0  an API server of that version, without nodes and workloads
  rewound up incident --recording incident.journal    what `rewound record` or `export` wrote, to go on from there
"""
_DOWN = """down

Stop a cluster and remove its context from the kubeconfig file. `rewound up` starts it again with its data.

  rewound down                                        the cluster "default"
  rewound down shop --delete                          another one, for good
"""
_LIST = """list

List the clusters of this machine, running or not.

  rewound list
  rewound list -o json
"""
_STATUS = f"""status

Show whether a cluster runs, its address, its context and its folder; or, with a flag that names one, how a recording of
`rewound flight` is: what it records and what not, since when, lag, gaps and disk. The exit code is {NOT_RUNNING} if the
cluster does not run, or nothing is recorded.

  rewound status
  rewound status shop -o json
  rewound status --data-dir prod                      a flight recorder's folder, or that of several clusters
  rewound status --kubeconfig prod/admin.kubeconfig   its server
"""
_LOGS = """logs

Print the log of a cluster's server.

  rewound logs shop --tail 20
  rewound logs -f
"""


def run(name: str, arguments: Sequence[str]) -> int:
    add_flags, command, text = _COMMANDS[name]
    parser = Parser(f"rewound {name}", text)
    add_flags(parser)
    return run_command(
        lambda: command(parser.parse_args(arguments)),
        [(UsageError, 2), ((Failure, ClientError), 1), (OSError, 1)],
    )


def _add_name(parser: Parser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default=DEFAULT_NAME,
        help=f"of the cluster (default {DEFAULT_NAME})",
    )


def _add_up(parser: Parser) -> None:
    _add_name(parser)
    parser.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help=f"simulate N nodes and run all controllers; 0: an API server alone (default {NODES}; with --config what "
        "the file says, with --recording 0)",
    )
    parser.add_argument(
        "--node-devices",
        type=Path,
        metavar="FILE",
        help="devices that each simulated node publishes (docs/devices.md)",
    )
    parser.add_argument(
        "--kubernetes-version", metavar="VERSION", help="the Kubernetes that it is, such as 1.33"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="flags of `rewound serve` as YAML")
    parser.add_argument(
        "--flag",
        action="append",
        dest="flags",
        metavar="FLAG",
        help="a flag of `rewound serve`, as in --flag=--event-ttl=5m; may be given more than once",
    )
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="begin with the objects and the history of this recording, or of this data folder",
    )
    parser.add_argument(
        "--load",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="apply the manifests of this file or folder when it runs; may be given more than once",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="(default the first of $KUBECONFIG, or ~/.kube/config)",
    )


def _add_down(parser: Parser) -> None:
    _add_name(parser)
    parser.add_argument("--delete", action="store_true", help="delete its data, too")


def _add_list(parser: Parser) -> None:
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")


def _add_status(parser: Parser) -> None:
    _add_name(parser)
    _add_list(parser)
    parser.set_defaults(name=None)
    group = parser.add_argument_group("a flight recorder instead")
    group.add_argument("--data-dir", type=Path, metavar="FOLDER", help="its folder, whether it runs or not")
    add_connection(parser, "has no effect here")


def _add_logs(parser: Parser) -> None:
    _add_name(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="and what follows, until the server stops"
    )
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines (default all)")


def _up(options: Options) -> int:
    from rewound.client.kubeconfig_edit import check_editable

    cluster = LocalCluster(options.name, state_folder())
    for path in options.load:
        if not path.exists():
            raise UsageError(f"--load: {path} does not exist; name a file or a folder with manifests")
    file = _default_kubeconfig() if options.kubeconfig is None else options.kubeconfig.absolute()
    check_editable(file)
    with exit_on_sigterm(), cluster.changing():
        before = cluster.stored()
        stored = replace(before)
        _take(stored, options, is_new=not cluster.exists)
        what = "is running" if cluster.is_running else "is up"
        if cluster.is_running:
            if stored != before:
                raise Failure(
                    f"{cluster.name} is running with other flags; stop it first: {_typed('down', cluster)}"
                )
            version = cluster.ready(stored.port)
            if version is None:
                raise Failure(
                    f"{cluster.name} runs but is not ready; its log says why: {_typed('logs', cluster)}"
                )
        else:
            version = _started(cluster, stored, before, options.recording)
        _add_context(cluster, stored, file)
    print(f"{cluster.name} {what}: Kubernetes {version} at https://{HOST}:{stored.port}")
    print(f"Its context {cluster.context} is the current one of {file}.")
    if options.load:
        _load(cluster, options.load)
    print("\nTry:\n" + "".join(f"  {line}\n" for line in _to_try(cluster, stored)), end="")
    return 0


def _typed(command: str, cluster: LocalCluster) -> str:
    return f"{typed_name()} {command} {cluster.name}"


def _take(stored: Stored, options: Options, *, is_new: bool) -> None:
    """Change what is stored by the flags that are given."""
    if options.nodes is not None and options.nodes < 0:
        raise UsageError("--nodes: is negative; give 0 for none")
    if options.config is not None:
        stored.config = str(options.config.resolve())
    if options.node_devices is not None:
        stored.node_devices = str(options.node_devices.resolve())
    if options.kubernetes_version is not None:
        stored.kubernetes_version = options.kubernetes_version
    if options.flags is not None:
        stored.flags = options.flags
    if is_new:
        stored.recorded = options.recording is not None
    elif options.recording is not None:
        raise _has_data(options.name)
    if options.nodes is not None:
        stored.nodes = options.nodes
    elif is_new and options.config is None and not stored.recorded:
        stored.nodes = NODES


def _has_data(name: str) -> UsageError:
    return UsageError(
        f"--recording: {name} has data already; give another name, or delete it: {typed_name()} down {name} --delete"
    )


def _default_kubeconfig() -> Path:
    listed = [one for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    return Path(listed[0]).absolute() if listed else Path.home() / ".kube" / "config"


def _started(cluster: LocalCluster, stored: Stored, before: Stored, recording: Path | None) -> str:
    """Start the server; returns its version. A start that fails leaves everything as it was `before`."""
    is_new = not cluster.folder.exists()
    with ExitStack() as undo:
        if is_new:
            undo.callback(shutil.rmtree, cluster.folder, ignore_errors=True)
        with cluster.choose_port(stored.port) as reserved:
            stored.port = reserved.getsockname()[1]
            if recording is not None:
                recorded_into(recording, cluster.data)
            cluster.store(stored)
            if not is_new:
                undo.callback(cluster.store, before)
            version = cluster.start(stored)
        undo.pop_all()
    return version


def _add_context(cluster: LocalCluster, stored: Stored, file: Path) -> None:
    """Put the context into this file, and remember which was the current one before."""
    from rewound.actors.access.remote.kubeconfig_file import read_kubeconfig
    from rewound.client.kubeconfig_edit import put_context

    if stored.kubeconfig != str(file):
        _drop_context(cluster, stored)
    admin = read_kubeconfig(cluster.kubeconfig).selected()
    try:
        before = put_context(file, cluster.context, admin.cluster.fields, admin.user.fields)
    except ClientError as error:
        raise Failure(f"{cluster.name} runs, but {error}; its own file is {cluster.kubeconfig}") from error
    if before != cluster.context or stored.kubeconfig != str(file):
        stored.kubeconfig, stored.context_before = str(file), "" if before == cluster.context else before
        cluster.store(stored)


def _load(cluster: LocalCluster, paths: list[Path]) -> None:
    from rewound.cli.local.load import load
    from rewound.client.kubeconfig import Overrides, load_target
    from rewound.client.session import Session

    with Session(load_target(Overrides(kubeconfig=cluster.kubeconfig))) as session:
        count, left_out = load(session, paths)
    for why in left_out:
        print(f"rewound: left out: {why}", file=sys.stderr)
    print(f"Applied {count} object{'' if count == 1 else 's'} of {', '.join(map(str, paths))}.")


def _to_try(cluster: LocalCluster, stored: Stored) -> list[str]:
    """Three commands, as they can be typed here."""
    from rewound.client.kubeconfig import DATA_FOLDER_FILE

    rewound, given = typed_name(), ""
    if stored.kubeconfig != str(_default_kubeconfig()):
        given = f" --kubeconfig {shlex.quote(stored.kubeconfig)}"
    # Our commands would take the data folder here, kubectl does not.
    hidden = DATA_FOLDER_FILE.parent.exists() and not given and not os.environ.get("KUBECONFIG")
    context = f" --context {cluster.context}" if hidden else ""
    others = [f"{rewound} log -f{given}{context}", f"{rewound} open{given}{context}"]
    if shutil.which("kubectl") is None:
        return [
            f"{rewound} at now {'nodes' if stored.nodes else 'namespaces'}{given}{context}",
            *others,
        ]
    first = "create deployment web --image=web:1 --replicas=3" if stored.nodes else "get namespaces"
    return [f"kubectl {first}{given}", *others]


def _down(options: Options) -> int:
    cluster = LocalCluster(options.name, state_folder())
    with cluster.changing():
        if not cluster.folder.exists():
            cluster.check_exists()
        stopped = cluster.stop()
        try:
            stored = cluster.stored()
        except Failure:
            if not options.delete:
                raise
            stored = Stored()
        _drop_context(cluster, stored)
        if options.delete:
            cluster.delete()
    what = f"{cluster.name} {'has stopped' if stopped else 'was not running'}"
    print(
        f"{what}; its data is deleted." if options.delete else f"{what}; its data stays in {cluster.folder}."
    )
    return 0


def _drop_context(cluster: LocalCluster, stored: Stored) -> None:
    from rewound.client.kubeconfig_edit import drop_context

    if not stored.kubeconfig:
        return
    try:
        drop_context(Path(stored.kubeconfig), cluster.context, stored.context_before)
    except ClientError as error:
        print(f"rewound: the context {cluster.context} stays: {error}", file=sys.stderr)


def _described(cluster: LocalCluster) -> dict[str, Any]:
    stored, pid = cluster.stored(), cluster.pid
    version = cluster.ready(stored.port) if pid is not None else None
    status = "stopped" if pid is None else "running" if version is not None else "not ready"
    return {
        "name": cluster.name,
        "status": status,
        "server": f"https://{HOST}:{stored.port}",
        "kubernetes": version or stored.kubernetes_version or "",
        "nodes": stored.nodes,
        "context": cluster.context,
        "kubeconfig": stored.kubeconfig,
        "pid": pid,
        "folder": str(cluster.folder),
        "bytes": cluster.size(),
    }


def _described_or_broken(cluster: LocalCluster) -> dict[str, Any]:
    try:
        return _described(cluster)
    except (Failure, OSError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        return {"name": cluster.name, "status": "broken", "folder": str(cluster.folder), "error": why}


def _list(options: Options) -> int:
    found = [_described_or_broken(one) for one in LocalCluster.all(state_folder())]
    if options.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    if not found:
        print(f"There are no clusters; `{typed_name()} up` starts one.", file=sys.stderr)
        return 0
    rows: list[tuple[str, ...]] = [("NAME", "STATUS", "SERVER", "KUBERNETES", "NODES", "SIZE")]
    for one in found:
        if "error" in one:
            rows.append((one["name"], one["status"], one["error"]))
            continue
        nodes = "" if one["nodes"] is None else str(one["nodes"])
        rows.append(
            (one["name"], one["status"], one["server"], one["kubernetes"], nodes, _size(one["bytes"]))
        )
    whole = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[at]) for row in (rows if at < _OF_BROKEN else whole)) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())
    return 0


_OF_BROKEN: Final = 2  # columns of a cluster that is broken, before the error


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _status(options: Options) -> int:
    from rewound.cli.journal.opening import server_flag

    flag = server_flag(options)
    if options.namespace:
        raise UsageError("--namespace: a status is of the whole recording; leave it out")
    if options.data_dir is not None and flag:
        raise UsageError(f"{flag}: has no effect with --data-dir; leave one of them out")
    if options.data_dir is not None or flag:
        if options.name is not None:
            given = flag or "--data-dir"
            raise UsageError(
                f"{given}: names a recording, and {options.name} a cluster; leave one of them out"
            )
        from rewound.cli.flight_status import flight_status

        return flight_status(options, NOT_RUNNING)
    options.name = options.name or DEFAULT_NAME
    cluster = LocalCluster(options.name, state_folder())
    cluster.check_exists()
    found = _described(cluster)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        found["bytes"] = _size(found["bytes"])
        for name, value in found.items():
            if value not in (None, ""):
                print(f"{'size' if name == 'bytes' else name:10}  {value}")
    return 0 if found["status"] == "running" else NOT_RUNNING


def _logs(options: Options) -> int:
    cluster = LocalCluster(options.name, state_folder())
    cluster.check_exists()
    text, end = cluster.read_log(options.tail)
    sys.stdout.write(text)
    if options.follow:
        sys.stdout.flush()
        cluster.follow_log(end, _write)
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


_COMMANDS: dict[str, tuple[Callable[[Parser], None], Callable[[Options], int], str]] = {
    "up": (_add_up, _up, _UP),
    "down": (_add_down, _down, _DOWN),
    "list": (_add_list, _list, _LIST),
    "status": (_add_status, _status, _STATUS),
    "logs": (_add_logs, _logs, _LOGS),
}
