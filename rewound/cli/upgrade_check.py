"""`rewound upgrade-check`: what another version of Kubernetes would refuse, drop, set otherwise or warn about.

Checks objects and recorded requests with the code of a server of that version: which group versions it
no longer serves, what its validation refuses, which fields it drops, which defaults differ, which
warnings clients get; and who sent or wrote them. Nothing is written.

rewound upgrade-check --to 1.33 --file manifests/            manifests: YAML or JSON, files or folders
rewound upgrade-check --to 1.33 --file incident.journal.gz   what was recorded
rewound upgrade-check --to 1.33 --data-dir rewound-data      every stored object, and who wrote it last
rewound upgrade-check --to 1.33 --kubeconfig prod.yaml       every object of a running server
rewound upgrade-check --to 1.33 --audit-log audit.log        which clients use what is gone; may be added to others

The exit code is 0 if nothing is refused or removed, 1 if something is, or the check failed, 2 after wrong use.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, chosen_target
from rewound.cli.command import run_command
from rewound.cli.journal.flags import DATA_DIR, add_manifests_or_journal, add_output
from rewound.cli.journal.opening import server_flag
from rewound.cli.journal.printing import Output
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress
from rewound.server.flags.values import argument_type

if TYPE_CHECKING:
    from rewound.actors.names import Names
    from rewound.recording.manifests import Item
    from rewound.recording.query.folder import Folder
    from rewound.recording.upgrade.inputs import Used
    from rewound.recording.upgrade.rehearsal import Finding, Rehearsal

_TITLES = {
    "removed": ("NOT SERVED ANY MORE", "red"),
    "refused": ("REFUSED", "red"),
    "pruned": ("FIELDS DROPPED", "yellow"),
    "defaulted": ("SET OTHERWISE", "yellow"),
    "warned": ("WARNINGS", "cyan"),
    "unchecked": ("NOT CHECKED", "dim"),
}
_SHOWN = 10  # objects and clients below a finding; -o json has all


def upgrade_check(arguments: Sequence[str]) -> int:
    failures = ((UsageError, 2), ((ClientError, Failure, JournalError, OSError), 1))
    return run_command(lambda: _run(arguments), failures)


def _parser() -> Parser:
    from rewound.actors.versions.version import parse_version

    version = argument_type(parse_version)
    parser = Parser("rewound upgrade-check", __doc__)
    parser.add_argument(
        "--to", type=version, required=True, metavar="VERSION", help="the version to upgrade to, such as 1.33"
    )
    parser.add_argument(
        "--from",
        dest="present",
        type=version,
        metavar="VERSION",
        help="the present version (default: what the server or the folder says, else 1.25)",
    )
    parser.add_argument(
        "--feature-gates", default="", metavar="NAME=BOOL,...", help="of the server of that version"
    )
    parser.add_argument(
        "--runtime-config", default="", metavar="KEY=BOOL,...", help="of the server of that version"
    )
    parser.add_argument(
        "--all", action="store_true", help="also what the present version refuses, drops or warns about"
    )
    add_output(parser, "json")
    group = add_manifests_or_journal(parser)
    group.add_argument(
        "--audit-log",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="check the requests in these, also besides objects",
    )
    add_connection(parser, "only what is in this namespace (default: everything)")
    return parser


def _run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    report = Report(options.to, show_all=options.all)
    with Progress("upgrade-check") as progress:
        _check(options, report, progress)
    output = Output.of(sys.stdout, options.color)
    if options.output == "json":
        output.json(report.document())
    else:
        report.print(output)
    output.flush()
    return 1 if report.breaks else 0


def _check(options: Options, report: Report, progress: Progress) -> None:
    from rewound.actors.names import NAMES

    checked = _Checked(options, report, progress)
    kubernetes = NAMES["kubernetes"]
    flag, journals = server_flag(options), _journals(options.file)
    given = [name for name, value in _sources(options, flag) if value]
    if len(given) > 1:
        raise UsageError(f"{given[1]}: names what to check, and so does {given[0]}; leave one of them out")
    if options.file and not journals:
        checked.begin(kubernetes, "")
        checked.manifests(options.file)
    elif (folder := _folder_of(options, journals)) is not None:
        report.replay = (
            f"rewound replay {shlex.quote(str(folder))} --writable --kubernetes-version {options.to}"
        )
        with _opened(folder, is_file=bool(journals)) as opened:
            checked.begin(NAMES.get(opened.journal.dialect, kubernetes), opened.journal.kubernetes or "1.25")
            checked.folder(opened)
    elif flag or not options.audit_log:
        checked.server()
    else:
        checked.begin(kubernetes, "")
    checked.requests(options.audit_log)


def _sources(options: Options, flag: str) -> list[tuple[str, Any]]:
    return [("--file", options.file), ("--data-dir", options.data_dir), (flag, flag)]


def _journals(files: list[Path]) -> list[Path]:
    """The files that are journals. Raises UsageError for one beside other files."""
    from rewound.recording.upgrade.inputs import is_journal

    found = [one for one in files if is_journal(one)]
    if found and len(files) > 1:
        raise UsageError(f"--file: {found[0]} is a journal; name it alone")
    return found


def _folder_of(options: Options, journals: list[Path]) -> Path | None:
    """The data folder or journal to check; None: a server, or only audit logs."""
    if journals or options.data_dir is not None:
        found: Path = journals[0] if journals else options.data_dir
        return found
    if server_flag(options) or options.audit_log or os.environ.get("KUBECONFIG"):
        return None
    return DATA_DIR if (DATA_DIR / "journal").is_dir() else None


@contextmanager
def _opened(path: Path, *, is_file: bool) -> Iterator[Folder]:
    from rewound.recording.query.folder import open_file, open_folder
    from rewound.server.memory_faults import explain_memory_faults

    explain_memory_faults(path)
    with open_file(path) if is_file else open_folder(path) as opened:
        yield opened


class _Checked:
    """Passes objects and requests to the rehearsal, and what it finds to the report."""

    def __init__(self, options: Options, report: Report, progress: Progress) -> None:
        self._options, self._report, self._progress = options, report, progress
        self._rehearsal: Rehearsal | None = None

    @property
    def rehearsal(self) -> Rehearsal:
        assert self._rehearsal is not None, "begin comes first"
        return self._rehearsal

    def begin(self, names: Names, found: str) -> None:
        """`found` is the version that the source says; empty if it says none. Raises UsageError."""
        from rewound.actors.kinds.enablement import parse_enablement
        from rewound.actors.versions.features import choose_release
        from rewound.actors.versions.version import DOCUMENTS_DIALECT, FIRST, check_upgrade, nearest_version
        from rewound.recording.upgrade.rehearsal import Rehearsal

        options = self._options
        present = options.present or nearest_version(found or FIRST)
        if names.dialect == DOCUMENTS_DIALECT:
            raise UsageError(
                f"--to: the dialect {names.dialect} is always Kubernetes {FIRST}, so there is nothing to upgrade; "
                "servers of other versions have --dialect kubernetes"
            )
        try:
            check_upgrade(present, options.to)
        except ValueError as error:
            raise UsageError(f"--to: {error}") from error
        try:
            target = choose_release(options.to, options.feature_gates)
        except ValueError as error:
            raise UsageError(f"--feature-gates: {error}") from error
        try:
            enabled = parse_enablement(options.runtime_config)
        except ValueError as error:
            raise UsageError(f"--runtime-config: {error}") from error
        self._report.present = present
        self._rehearsal = Rehearsal(names, choose_release(present), target, enabled)

    def manifests(self, paths: list[Path]) -> None:
        from rewound.recording.manifests import Manifests

        manifests = Manifests()
        items = manifests.read(paths)
        self._report.notes += [f"left out: {why}" for why in manifests.left_out.values()]
        for item in items:
            if self.rehearsal.is_definition(item.document):
                self.rehearsal.declare(item.document)
        for item in items:
            self.take(item)

    def folder(self, folder: Folder) -> None:
        from rewound.recording.upgrade.inputs import stored_items

        for item in stored_items(folder, self.rehearsal.names):
            self.take(item)

    def server(self) -> None:
        import trio

        from rewound.client.streaming import StreamingSession

        trio.run(self._server, StreamingSession(chosen_target(self._options)))

    async def _server(self, session: Any) -> None:
        from rewound.actors.kinds.built_in import built_in
        from rewound.actors.names import NAMES
        from rewound.actors.versions.features import choose_release
        from rewound.recording.record.kinds import dialect_of, version_of
        from rewound.recording.upgrade.inputs import ServerObjects

        try:
            names = await dialect_of(session, NAMES.values())
            version = await version_of(session, names)
            self.begin(names, version)
            catalog = built_in(names, choose_release(version))
            server = ServerObjects(session, catalog, names, self._options.namespace)
            for used in await server.deprecated():  # before our own requests are counted
                self.take_request(used)
            async for item in server.items():
                self.take(item)
            self._report.notes += server.problems
        finally:
            await session.aclose()

    def requests(self, logs: list[Path]) -> None:
        from rewound.recording.upgrade.inputs import AuditRequests

        for log in logs:
            reading = AuditRequests()
            before = self._report.requests
            for used in reading.read(log):
                self.take_request(used)
            if self._report.requests == before and reading.unreadable:
                raise Failure(
                    f"--audit-log: {log} is not an audit log in JSON: {reading.problem}; name another"
                )
            if reading.unreadable:
                self._report.notes.append(
                    f"{reading.unreadable:,} lines or events of {log} are left out: {reading.problem}"
                )

    def take(self, item: Item) -> None:
        from rewound.recording.manifests import STORED

        metadata = item.document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if item.how == STORED and self.rehearsal.is_definition(item.document):
            self.rehearsal.declare(item.document)
        namespace = metadata.get("namespace", "")
        if self._options.namespace and namespace != self._options.namespace:
            return
        self._report.objects += 1
        self._progress(self._report.objects)
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        subject = Subject(
            str(item.document["apiVersion"]),
            str(item.document["kind"]),
            namespace,
            name,
            item.who,
            item.where,
        )
        for finding in self.rehearsal.check(item.document, item.how):
            self._report.add(finding, subject, hidden=finding.already and item.how == STORED)

    def take_request(self, used: Used) -> None:
        self._report.requests += 1
        self._progress(self._report.objects + self._report.requests)
        api_version = f"{used.group}/{used.version}" if used.group else used.version
        resource = f"{used.plural}/{used.subresource}" if used.subresource else used.plural
        subject = Subject(
            api_version, resource, who=used.who, where=used.where, verb=used.verb, is_request=True
        )
        rehearsal = self.rehearsal
        findings = rehearsal.check_request(used.group, used.version, used.plural, used.subresource)
        if used.document is not None and {"apiVersion", "kind"} <= used.document.keys():
            if rehearsal.is_definition(used.document):
                rehearsal.declare(used.document)
            known = {one.severity for one in findings}
            findings += [
                one
                for one in rehearsal.check(used.document, used.how)
                if one.severity not in known & {"removed", "unchecked"} and one not in findings
            ]
        for finding in findings:
            self._report.add(finding, subject, hidden=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """An object, or the requests of a client for a resource."""

    api_version: str
    kind: str  # of requests: the plural name, with the subresource
    namespace: str = ""
    name: str = ""
    who: str = ""
    where: str = ""
    verb: str = ""
    is_request: bool = False

    @property
    def text(self) -> str:
        if self.is_request:
            return f"{self.verb or 'requests of'} {self.kind}"
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def document(self) -> dict[str, Any]:
        names = {
            "apiVersion": self.api_version,
            "resource" if self.is_request else "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "verb": self.verb,
            "by": self.who,
            "file": self.where,
        }
        return {name: value for name, value in names.items() if value}


@dataclass(slots=True)
class Report:
    target: str
    show_all: bool = False
    present: str = ""
    objects: int = 0
    requests: int = 0
    hidden: int = 0  # findings that are so already
    replay: str = ""  # the command that serves a copy in the target version; empty if there is no journal
    notes: list[str] = field(default_factory=list)
    # By severity: finding -> subject -> how often.
    found: dict[str, dict[Finding, dict[Subject, int]]] = field(
        default_factory=lambda: {severity: {} for severity in _TITLES}
    )

    def add(self, finding: Finding, subject: Subject, *, hidden: bool) -> None:
        """`hidden`: shown only with --all, as are lesser findings that are so already."""
        lesser = finding.already and finding.severity in ("pruned", "warned")
        if (hidden or lesser) and not self.show_all and finding.severity != "unchecked":
            self.hidden += 1
            return
        subjects = self.found[finding.severity].setdefault(finding, {})
        subjects[subject] = subjects.get(subject, 0) + 1

    @property
    def breaks(self) -> bool:
        return bool(self.found["removed"] or self.found["refused"])

    def document(self) -> dict[str, Any]:
        findings = [
            {
                "severity": severity,
                "message": finding.message,
                **({"field": finding.field} if finding.field else {}),
                **({"use": finding.use} if finding.use else {}),
                **({"already": True} if finding.already else {}),
                **subject.document(),
                **({"count": count} if subject.is_request else {}),
            }
            for severity, by_finding in self.found.items()
            for finding, subjects in by_finding.items()
            for subject, count in subjects.items()
        ]
        return {
            "kind": "UpgradeCheck",
            "from": self.present,
            "to": self.target,
            "objects": self.objects,
            "requests": self.requests,
            "counts": {severity: sum(map(len, found.values())) for severity, found in self.found.items()},
            "findings": findings,
            "notes": self.notes,
        }

    def print(self, output: Output) -> None:
        for severity, by_finding in self.found.items():
            if by_finding:
                title, color = _TITLES[severity]
                output.line(output.paint(f"{title} in Kubernetes {self.target}", color))
                for finding, subjects in by_finding.items():
                    self._print_finding(output, finding, subjects)
                output.line()
        checked = f"{_count(self.objects, 'object')} and {_count(self.requests, 'request')} checked"
        output.line(f"Kubernetes {self.present} to {self.target}: {checked}; {self._summary()}")
        if self.hidden:
            output.line(f"{_count(self.hidden, 'finding')} that {self.present} has too: --all shows them")
        for note in self.notes:
            print(f"rewound: {escaped(note)}", file=sys.stderr)
        if self.replay:
            print(f"to run controllers against a copy: {self.replay}", file=sys.stderr)

    def _print_finding(self, output: Output, finding: Finding, subjects: dict[Subject, int]) -> None:
        also = f" (as in {self.present})" if finding.already and finding.severity != "unchecked" else ""
        output.line(f"  {escaped(finding.message)}{also}")
        rows = [_row(subject, count) for subject, count in list(subjects.items())[:_SHOWN]]
        width = max(len(first) for first, _ in rows)
        for first, rest in rows:
            output.line(f"      {first:{width}}  {rest}".rstrip())
        if len(subjects) > _SHOWN:
            output.line(f"      and {len(subjects) - _SHOWN:,} more; -o json has all")

    def _summary(self) -> str:
        counts = [
            f"{sum(map(len, found.values())):,} {severity}" for severity, found in self.found.items() if found
        ]
        return ", ".join(counts) or "nothing would change"


def _row(subject: Subject, count: int) -> tuple[str, str]:
    times = f", {count:,} times" if subject.is_request and count > 1 else ""
    who = f"by {escaped(subject.who)}{times}" if subject.who else times.removeprefix(", ")
    where = f"in {escaped(subject.where)}" if subject.where else ""
    return escaped(subject.text), "  ".join(filter(None, (who, where)))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
