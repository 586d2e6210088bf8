"""`rewound doctor`: what of this machine, interpreter and data folder would make a server slow or fail, and what to do.

It changes nothing, and may run beside the server of the folder. Each line says what was found; what should change has
a line about how. The exit code is 1 if something would make a server fail, else 0.

    rewound doctor
    rewound doctor --data-dir /var/lib/rewound --secure-port 6443
    rewound doctor -o json
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import resource
import shutil
import socket
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import run_command
from rewound.client.errors import UsageError

OK, NOTE, PROBLEM = "ok", "note", "problem"
_MEBIBYTE: Final = 1 << 20
_FSYNCS: Final = 20
_SLOW_FSYNC, _VERY_SLOW_FSYNC = 0.010, 0.100  # seconds
_NETWORKED: Final = re.compile(r"(nfs|cifs|smb|9p|afs|ceph|glusterfs|lustre|fuse\.sshfs)")
_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    level: str
    found: str
    advice: str = ""


def doctor(arguments: Sequence[str]) -> int:
    parser = Parser("rewound doctor", __doc__)
    parser.add_argument(
        "--data-dir", type=Path, default=Path("rewound-data"), metavar="FOLDER", help="(default rewound-data)"
    )
    parser.add_argument("--bind-address", default="127.0.0.1", metavar="ADDRESS", help="(default 127.0.0.1)")
    parser.add_argument("--secure-port", type=int, default=6443, metavar="PORT", help="(default 6443)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")
    return run_command(lambda: _examine(parser.parse_args(arguments)), [(UsageError, 2)])


def _examine(options: Options) -> int:
    findings = list(examined(options.data_dir, options.bind_address, options.secure_port))
    if options.output == "json":
        print(json.dumps([asdict(one) for one in findings], indent=1))
    else:
        for one in findings:
            print(f"{one.level:8} {one.about:12} {one.found}")
            if one.advice:
                print(f"{'':21} -> {one.advice}")
    return int(any(one.level == PROBLEM for one in findings))


def examined(folder: Path, address: str, port: int) -> Iterator[Finding]:
    """Everything that is found, in the order in which a start would need it."""
    existing = next(one for one in (folder, *folder.absolute().parents) if one.is_dir())
    server = _writer_of(folder / "journal")
    yield _interpreter()
    yield _optimizations()
    yield from _packages()
    yield _open_files()
    yield from _address_space()
    yield from _backlog()
    yield _room(existing)
    yield from _file_system(existing)
    yield _fsync(existing)
    yield from _clock()
    yield _port(address, port, server)
    yield from _data_folder(folder, server)
    yield from _certificates(folder / "pki" / "index.json")


def _interpreter() -> Finding:
    found = f"Python {'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return Finding(
            "python", NOTE, f"{found}, without a global lock", "use the usual build: this one is not tested"
        )
    return Finding("python", OK, found)


def is_optimized() -> bool:
    """Whether this interpreter was built with profile-guided optimization."""
    return "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def _optimizations() -> Finding:
    if is_optimized():
        return Finding("interpreter", OK, "built with --enable-optimizations")
    return Finding(
        "interpreter",
        NOTE,
        "not built with --enable-optimizations, which saves a sixth of the CPU time",
        "use the Python of a distribution, of uv or of the official images, or build it with that option",
    )


def _packages() -> Iterator[Finding]:
    try:
        required = metadata.requires("rewound") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "packages", NOTE, "rewound is not installed, but runs from a folder", "install it with pip"
        )
        return
    versions = []
    for line in required:
        name = re.match(r"[\w.-]+", line)
        if name is None or "extra ==" in line:
            continue
        try:
            found = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            yield Finding("packages", PROBLEM, f"{name[0]} is missing", f"pip install '{line}'")
            continue
        versions.append(f"{name[0]} {found}")
        least = re.search(r">=\s*([\d.]+)", line)
        if least is not None and _numbers(found) < _numbers(least[1]):
            yield Finding("packages", PROBLEM, f"{name[0]} {found} is too old", f"pip install '{line}'")
    yield Finding("packages", OK, ", ".join(versions))


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", version)[:3]]


def _open_files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= 4096:
        return Finding("open files", OK, f"up to {hard}; the server raises its limit to that")
    advice = "raise it: LimitNOFILE= of systemd, `ulimit -Hn`; every client and watch needs one"
    return Finding("open files", NOTE, f"at most {hard}", advice)


def _address_space() -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        found = f"limited to {soft // _MEBIBYTE} MiB of addresses"
        yield Finding(
            "memory", NOTE, found, "remove the limit (`ulimit -v`): the journal is mapped, and grows"
        )


def _backlog() -> Iterator[Finding]:
    with suppress(OSError, ValueError):
        most = int(Path("/proc/sys/net/core/somaxconn").read_text())
        if most < 4096:
            found = f"the kernel queues {most} new connections for a listener"
            yield Finding(
                "connections",
                NOTE,
                found,
                "sysctl net.core.somaxconn=4096, if many clients reconnect at once",
            )


def _room(folder: Path) -> Finding:
    usage, nodes = shutil.disk_usage(folder), os.statvfs(folder)
    found = f"{usage.free // _MEBIBYTE} MiB free of {usage.total // _MEBIBYTE} MiB at {folder}"
    if nodes.f_files and nodes.f_favail < 100:
        return Finding("disk", PROBLEM, f"{nodes.f_favail} files can be created at {folder}", "delete files")
    if usage.free < 256 * _MEBIBYTE:
        return Finding("disk", PROBLEM, found, "free some space: writes get 507 when the disk is full")
    if usage.free < usage.total // 20:
        return Finding("disk", NOTE, found, "free some space, or keep less history with --journal-retention")
    return Finding("disk", OK, found)


def _file_system(folder: Path) -> Iterator[Finding]:
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return
    below = [(path, kind) for path, kind in mounts if folder.resolve().is_relative_to(path)]
    if not below:
        return
    path, kind = max(below, key=lambda one: len(one[0]))
    if _NETWORKED.match(kind):
        advice = "keep the data folder on a disk of this machine: LMDB needs its locks and its shared memory"
        yield Finding("file system", PROBLEM, f"{kind} at {path}", advice)
    elif kind in ("tmpfs", "ramfs"):
        yield Finding(
            "file system", NOTE, f"{kind} at {path}", "use a disk: this folder is lost with the machine"
        )
    else:
        yield Finding("file system", OK, f"{kind} at {path}")


def _fsync(folder: Path) -> Finding:
    try:
        taken = fsync_seconds(folder)
    except OSError as error:
        return Finding(
            "fsync", PROBLEM, f"{folder}: {error.strerror}", "give this user a folder that it may write to"
        )
    median = sorted(taken)[len(taken) // 2]
    found = f"{median * 1000:.1f} ms, at most {max(taken) * 1000:.1f} ms, for {len(taken)} writes of 4 KiB"
    if median < _SLOW_FSYNC:
        return Finding("fsync", OK, found)
    slow = "use an SSD or a disk with a cache that survives a power cut: every batch of writes waits for it"
    return Finding("fsync", PROBLEM if median > _VERY_SLOW_FSYNC else NOTE, found, slow)


def fsync_seconds(folder: Path, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    taken, sync = [], getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_FSYNCS):
            file.write(os.urandom(4096))
            file.flush()
            began = clock()
            sync(file.fileno())
            taken.append(clock() - began)
    return taken


def _clock() -> Iterator[Finding]:
    """Whether the kernel knows that its clock is synchronized: the status of adjtimex."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        state = ctypes.create_string_buffer(512)
        synchronized = ctypes.CDLL(None).adjtimex(state) != 5  # TIME_ERROR
    except (OSError, AttributeError):
        yield Finding("clock", OK, now)
        return
    if synchronized:
        yield Finding("clock", OK, f"{now}, synchronized")
    else:
        advice = "run chrony or systemd-timesyncd: tokens, certificates and leases depend on the time"
        yield Finding("clock", NOTE, f"{now}, nothing synchronizes it", advice)


def _port(address: str, port: int, server: str) -> Finding:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.strip("[]"), port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and server:
                return Finding("port", OK, f"{port} of {address} is in use; the server of the folder runs")
            advice = "stop what listens there, or give --secure-port or --bind-address"
            return Finding("port", PROBLEM, f"{port} of {address}: {error.strerror}", advice)
    return Finding("port", OK, f"{port} of {address} is free")


def _writer_of(journal: Path) -> str:
    """The number of the process that writes a journal; empty if none does. Takes no lock, which could stop a start."""
    from rewound.journal.files.data_file import LOCK

    try:
        inode = (journal / LOCK).stat().st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return ""
    for line in locks:
        _, kind, _, _, pid, file, *_ = line.replace("-> ", "").split()
        if kind == "FLOCK" and file.rpartition(":")[2] == str(inode):
            return pid
    return ""


def _data_folder(folder: Path, server: str) -> Iterator[Finding]:
    if not (folder / "journal").is_dir():
        yield Finding("data folder", OK, f"{folder} has no journal yet; the first start creates it")
        return
    from rewound.journal.errors import JournalError
    from rewound.journal.log import Journal

    open_to_all = [
        one
        for one in (
            folder / "admin.kubeconfig",
            folder / "journal" / "data.mdb",
            *(folder / "pki").glob("*.key"),
        )
        if one.exists() and one.stat().st_mode & stat.S_IROTH and one.parent.stat().st_mode & stat.S_IXOTH
    ]
    if open_to_all:
        names = " ".join(map(str, open_to_all))
        yield Finding("data folder", NOTE, "other users can read its secrets", f"chmod 600 {names}")
    try:
        journal = Journal.open(folder / "journal", readonly=True)
    except (JournalError, OSError) as error:
        advice = f"see docs/operations.md; `rewound journal verify {folder}` says what is damaged"
        yield Finding("data folder", PROBLEM, str(error), advice)
        return
    try:
        used = journal.statistics()["used_bytes"] // _MEBIBYTE
        who = f"process {server} serves it" if server else "no server has it open"
        kubernetes = f", Kubernetes {journal.kubernetes}" if journal.kubernetes else ""
        found = f"{folder}: dialect {journal.dialect}{kubernetes}, version {journal.head}, {used} MiB; {who}"
        yield Finding("data folder", OK, found)
        for problem in journal.unreadable:
            yield Finding("data folder", NOTE, problem, "everything else is served; see docs/journal.md")
    finally:
        journal.close()


def _certificates(index: Path) -> Iterator[Finding]:
    try:
        ends = {name: one["expires"] for name, one in json.loads(index.read_bytes()).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    if not ends:
        return
    name, end = min(ends.items(), key=lambda one: one[1])
    days = (end - time.time()) / _DAY
    found = f"the first to end is that of {name}, in {days:.0f} days"
    if days > 0:
        yield Finding("certificates", OK, f"{found}; a server renews it a month before")
    else:
        yield Finding("certificates", NOTE, found, "start the server: it renews them, and admin.kubeconfig")
