"""`rewound policy test`: what admission policies would have done with the writes of the past.

Evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies on every recorded write, with the
code of a server: which writes they would have denied, warned of or changed, by whom, and what their
expressions cost. Nothing is written.

rewound policy test limits.yaml                                  every write in ./rewound-data
rewound policy test limits.yaml --data-dir FOLDER --since 1h     writes of the last hour
rewound policy test limits.yaml --file incident.journal.gz       what was recorded
rewound policy test limits.yaml --file manifests/                manifests, as creates
rewound policy test limits.yaml --kubeconfig prod.yaml           the objects of a running server, as creates

FILE has policies, their bindings and maybe their parameters: YAML or JSON, also folders. A policy without
a binding gets one that denies. Other parameters are those of the past.

The exit code is 0 if no write is denied, 1 if one is, or the test failed, 2 after wrong use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewound.actors.cel.costs import Costs
from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser, add_connection, chosen_target
from rewound.cli.command import run_command
from rewound.cli.journal.flags import DATA_DIR, MOMENT, add_manifests_or_journal, add_output, moment
from rewound.cli.journal.opening import server_flag
from rewound.cli.journal.printing import Output
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress
from rewound.server.flags.values import argument_type

if TYPE_CHECKING:
    from rewound.recording.manifests import Item
    from rewound.recording.policies.trial import TriedRecording, Write

Document = dict[str, Any]
_TITLES = {
    "deny": ("DENIED", "red"),
    "change": ("CHANGED", "yellow"),
    "warn": ("WARNED", "cyan"),
    "audit": ("IN THE AUDIT LOG", "dim"),
    "allow": ("FAILED, BUT IGNORED", "dim"),
}
_SHOWN = 10  # writes below a finding; -o json has more
_KEPT = 1000  # writes of a finding
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def policy(arguments: Sequence[str]) -> int:
    failures = ((UsageError, 2), ((ClientError, Failure, JournalError, OSError), 1))
    return run_command(lambda: _run(arguments), failures)


def _parser() -> Parser:
    from rewound.actors.versions.version import parse_version

    parser = Parser("rewound policy test", __doc__)
    parser.add_argument(
        "policies", type=Path, nargs="+", metavar="FILE", help="policies, bindings and parameters"
    )
    parser.add_argument(
        "--kubernetes-version",
        type=argument_type(parse_version),
        metavar="VERSION",
        help="evaluate as this version (default: that of the journal if it has such policies, else the newest)",
    )
    parser.add_argument("--feature-gates", default="", metavar="NAME=BOOL,...", help="of that version")
    parser.add_argument("--since", type=moment, metavar="MOMENT", help=f"writes from then on: {MOMENT}")
    parser.add_argument("--until", type=moment, metavar="MOMENT", help="writes up to then")
    add_output(parser, "json")
    add_manifests_or_journal(parser)
    add_connection(parser, "only writes in this namespace (default: everything)")
    return parser


def _run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] != "test":
        if arguments and arguments[0] in ("-h", "--help"):
            _parser().parse_args(arguments)
        raise UsageError("policy: the command is `rewound policy test FILE...`")
    options = _parser().parse_args(arguments[1:])
    report = Report()
    with Progress("policy test") as progress:
        _test(options, report, progress)
    output = Output.of(sys.stdout, options.color)
    if options.output == "json":
        output.json(report.document())
    else:
        report.print(output)
    output.flush()
    return 1 if report.found["deny"] else 0


def _test(options: Options, report: Report, progress: Progress) -> None:
    import trio

    with _opened(options, report) as recording:
        given = _Given(options, recording)
        report.version = given.version
        report.notes += given.notes
        trio.run(_try, options, recording, given, report, progress)


async def _try(
    options: Options, recording: TriedRecording, given: _Given, report: Report, progress: Progress
) -> None:
    from rewound.recording.policies.trial import trying

    with recording.read_all() as view:
        floor = view.floor
        after = floor if options.since is None else max(floor, options.since.first(view) - 1)
        to = recording.end if options.until is None else options.until.version(view)
    async with trying(recording, given.documents, given.version, after, options.feature_gates) as trial:
        async for write in trial.matched(after, to):
            if not options.namespace or write.event.namespace == options.namespace:
                report.add(write)
            progress(trial.writes_checked)
        report.writes = trial.writes_checked


# Sources.


@contextmanager
def _opened(options: Options, report: Report) -> Iterator[TriedRecording]:
    from rewound.recording.manifests import Manifests
    from rewound.recording.policies.sources import open_recording, recording_of
    from rewound.recording.upgrade.inputs import is_journal
    from rewound.server.memory_faults import explain_memory_faults

    flag = server_flag(options)
    sources = [("--file", options.file), ("--data-dir", options.data_dir), (flag, flag)]
    given = [name for name, value in sources if value]
    if len(given) > 1:
        raise UsageError(f"{given[1]}: names what to test, and so does {given[0]}; leave one of them out")
    journals = [one for one in options.file if is_journal(one)]
    if journals and len(options.file) > 1:
        raise UsageError(f"--file: {journals[0]} is a journal; name it alone")
    folder = journals[0] if journals else options.data_dir
    if folder is None and not options.file and not flag and not os.environ.get("KUBECONFIG"):
        folder = DATA_DIR if (DATA_DIR / "journal").is_dir() else None
    if folder is not None:
        explain_memory_faults(folder)
        with open_recording(folder, is_file=bool(journals)) as recording:
            yield recording
        return
    for name in ("since", "until"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: only journals have a past; name one with --data-dir or --file")
    if options.file:
        manifests = Manifests()
        items = manifests.read(options.file)
        report.notes += [f"left out: {why}" for why in manifests.left_out.values()]
        version = options.kubernetes_version
    else:
        items, version = _server_items(options, report)
    with recording_of(items, version) as (recording, left_out):
        report.notes += [f"left out: {why}" for why in left_out]
        yield recording


def _server_items(options: Options, report: Report) -> tuple[list[Item], str]:
    """The objects of a server, and its version."""
    import trio

    from rewound.actors.kinds.built_in import built_in
    from rewound.actors.names import NAMES
    from rewound.actors.versions.features import choose_release
    from rewound.actors.versions.version import nearest_version
    from rewound.client.streaming import StreamingSession
    from rewound.recording.record.kinds import version_of
    from rewound.recording.upgrade.inputs import ServerObjects

    target = chosen_target(options)

    async def read() -> tuple[list[Item], str]:
        session = StreamingSession(target)
        try:
            names = NAMES["kubernetes"]
            version = nearest_version(await version_of(session, names))
            server = ServerObjects(session, built_in(names, choose_release(version)), names)
            items = [one async for one in server.items()]
            report.notes += server.problems
            return items, version
        finally:
            await session.aclose()

    return trio.run(read)


class _Given:
    """The policies to test, as a server of their version accepts them."""

    def __init__(self, options: Options, recording: TriedRecording) -> None:
        from rewound.actors.names import NAMES
        from rewound.actors.versions.features import VALIDATING_POLICIES, choose_release
        from rewound.actors.versions.version import DOCUMENTS_DIALECT, NEWEST, stored_version
        from rewound.recording.manifests import Manifests
        from rewound.recording.upgrade.rehearsal import REFUSED, REMOVED, Rehearsal

        self.notes: list[str] = []
        if recording.dialect == DOCUMENTS_DIALECT:
            raise UsageError(
                f"the journal has the dialect {DOCUMENTS_DIALECT}, which has no admission policies; test one of "
                "a server with --dialect kubernetes"
            )
        names = NAMES[recording.dialect]
        recorded = stored_version(recording.kubernetes)
        self.version: str = options.kubernetes_version or recorded
        try:
            release = choose_release(self.version, options.feature_gates)
        except ValueError as error:
            raise UsageError(f"--feature-gates: {error}") from error
        if VALIDATING_POLICIES not in release.features:
            if options.kubernetes_version:
                raise UsageError(
                    f"--kubernetes-version: {self.version} has no policies; name 1.30 or a later one, or turn on "
                    "the gates with --feature-gates"
                )
            self.version, release = NEWEST, choose_release(NEWEST)
            self.notes.append(f"Kubernetes {recorded} has no policies: they are evaluated as in {NEWEST}")
        manifests = Manifests()
        read = manifests.read(options.policies)
        self.notes += [f"left out: {why}" for why in manifests.left_out.values()]
        self.documents = [one.document for one in read]
        policies = [one for one in self.documents if one["kind"] in _POLICIES]
        if not policies:
            raise Failure(f"{options.policies[0]} has no {' or '.join(_POLICIES)}; name files that have one")
        rehearsal = Rehearsal(names, release, release)
        for item in read:
            for finding in rehearsal.check(item.document):
                if finding.severity in (REFUSED, REMOVED):
                    name = (item.document.get("metadata") or {}).get("name", "")
                    raise Failure(f"{item.where}: {item.document['kind']} {name}: {finding.message}")
        self._bind(policies)

    def _bind(self, policies: list[Document]) -> None:
        """Add bindings for policies that have none."""
        bound = {
            (one["kind"], (one.get("spec") or {}).get("policyName"))
            for one in self.documents
            if one["kind"].endswith("Binding")
        }
        for one in policies:
            name = one["metadata"]["name"]
            if (f"{one['kind']}Binding", name) in bound:
                continue
            spec: Document = {"policyName": name}
            if one["kind"] == _POLICIES[0]:
                spec["validationActions"] = ["Deny"]
            if (one.get("spec") or {}).get("paramKind"):
                raise Failure(
                    f"{one['kind']} {name} has parameters and no binding; add a binding that names them"
                )
            binding = {
                "apiVersion": one["apiVersion"],
                "kind": f"{one['kind']}Binding",
                "metadata": {"name": name},
                "spec": spec,
            }
            self.documents.append(binding)
            self.notes.append(f"{one['kind']} {name} has no binding: it is tested for everything")


# The report.


@dataclass(frozen=True, slots=True)
class Subject:
    version: int
    time: int
    verb: str
    operation: str
    kind: str
    namespace: str
    name: str
    who: str
    changes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.kind} {where}"

    def document(self) -> Document:
        from rewound.recording.query.moments import rfc3339

        found = {
            "version": str(self.version),
            "time": rfc3339(self.time),
            "verb": self.verb,
            "operation": self.operation,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "by": self.who,
            "changes": list(self.changes),
        }
        return {name: value for name, value in found.items() if value}


@dataclass(slots=True)
class _Finding:
    count: int = 0
    by: dict[str, int] = field(default_factory=dict)  # users -> writes
    subjects: list[Subject] = field(default_factory=list)  # the first ones


@dataclass(slots=True)
class Report:
    version: str = ""
    writes: int = 0
    notes: list[str] = field(default_factory=list)
    costs: dict[str, Costs] = field(default_factory=dict)  # by policy
    # By action: policy, binding and message -> finding.
    found: dict[str, dict[tuple[str, str, str], _Finding]] = field(
        default_factory=lambda: {action: {} for action in _TITLES}
    )

    def add(self, write: Write) -> None:

        event = write.event
        user, manager = event.user_text, event.manager_text
        who = f"{user} ({manager})" if user and manager else user or manager
        for tried in write.tried:
            self.costs.setdefault(tried.policy, Costs()).add(tried.cost)
            for one in tried.decisions:
                finding = self.found[one.action].setdefault(
                    (tried.policy, one.binding, one.message), _Finding()
                )
                finding.count += 1
                finding.by[who] = finding.by.get(who, 0) + 1
                if len(finding.subjects) < _KEPT:
                    finding.subjects.append(
                        Subject(
                            event.offset,
                            event.time,
                            event.verb,
                            write.operation,
                            write.kind,
                            event.namespace,
                            event.name,
                            who,
                            one.changes,
                        )
                    )

    def document(self) -> Document:
        return {
            "kind": "PolicyTest",
            "apiVersion": "rewound.cluster.io/v1",
            "kubernetesVersion": self.version,
            "writes": self.writes,
            "policies": [
                {
                    "name": name,
                    "evaluations": cost.evaluations,
                    "meanCost": round(cost.total / cost.evaluations, 1),
                    "highestCost": cost.most,
                }
                for name, cost in sorted(self.costs.items())
            ],
            "findings": [
                {
                    "action": action,
                    "policy": policy,
                    "binding": binding,
                    "message": message,
                    "count": finding.count,
                    "by": finding.by,
                    "writes": [one.document() for one in finding.subjects],
                }
                for action, found in self.found.items()
                for (policy, binding, message), finding in found.items()
            ],
            "notes": self.notes,
        }

    def print(self, output: Output) -> None:
        for action, found in self.found.items():
            title, color = _TITLES[action]
            if found:
                output.line(output.paint(title, color))
            for (policy, binding, message), finding in found.items():
                self._print_finding(output, (policy, binding, message), finding)
            if found:
                output.line("")
        for name, cost in sorted(self.costs.items()):
            mean = cost.total / cost.evaluations
            output.line(
                f"{escaped(name)}: evaluated {cost.evaluations:,} times, cost {mean:,.0f} in the mean, "
                f"{cost.most:,} at most"
            )
        output.line(f"{_count(self.writes, 'write')} of Kubernetes {self.version} tested; {self._summary()}")
        for note in self.notes:
            print(f"rewound: {escaped(note)}", file=sys.stderr)

    def _print_finding(self, output: Output, key: tuple[str, str, str], finding: _Finding) -> None:
        from rewound.recording.query.moments import exact

        policy, binding, message = key
        bound = f" (binding {escaped(binding)})" if binding and binding != policy else ""
        output.line(f"  {escaped(policy)}{bound}: {escaped(message)}")
        by = ", ".join(f"{escaped(who)} {count:,}" for who, count in _largest(finding.by))
        output.line(f"      {_count(finding.count, 'write')}, by {by}")
        for one in finding.subjects[:_SHOWN]:
            output.line(f"      {one.version}  {exact(one.time)}  {escaped(one.text)}  by {escaped(one.who)}")
            for change in one.changes[:_SHOWN]:
                output.line(f"          {escaped(change)}")
        if finding.count > _SHOWN:
            output.line(f"      and {finding.count - _SHOWN:,} more; -o json has up to {_KEPT:,}")

    def _summary(self) -> str:
        texts = {"deny": "denied", "change": "changed", "warn": "warned of", "audit": "annotated"}
        counts = [
            f"{sum(one.count for one in self.found[action].values()):,} {text}"
            for action, text in texts.items()
            if self.found[action]
        ]
        return ", ".join(counts) or "nothing would have been denied, warned of or changed"


def _largest(by: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(by.items(), key=lambda one: -one[1])[:_SHOWN]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
