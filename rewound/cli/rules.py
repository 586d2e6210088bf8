"""`rewound rules`: alerts by rules over the events of a journal.

rewound rules test alerts.yaml --since 7d                     the alerts of the last week, in ./rewound-data
rewound rules test alerts.yaml --file incident.journal.gz     of a recording
rewound rules test --kubeconfig prod.yaml --since 1h          the built-in rules, on a running server
rewound rules watch prod --rules alerts.yaml                  alerts of a recording as they fire, in the folder prod
rewound rules watch https://127.0.0.1:6445                    those of the built-in rules, on a server
rewound rules list alerts.yaml                                the rules of a file, and the built-in ones

FILE has rules in CEL, and parameters of the built-in rules. Without it, there are only the built-in
rules. `test` sends no alert: it prints which ones the rules would have given, how often, and what they cost.

The exit code is 0 also if there are alerts, 1 if the file or the journal cannot be used, 2 after wrong use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, Parser
from rewound.cli.command import run_command
from rewound.cli.journal.flags import MOMENT, add_output, add_source, count, moment
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output
from rewound.client.errors import ClientError, Failure, UsageError
from rewound.journal.errors import JournalError
from rewound.recording.progress import Progress
from rewound.recording.query.moments import Moment, exact, rfc3339, span

if TYPE_CHECKING:
    from rewound.recording.query.source import Source
    from rewound.recording.rules.engine import Alert, Rule
    from rewound.recording.rules.feed import Feed
    from rewound.recording.rules.file import RuleFile
    from rewound.recording.rules.trial import Tried

Document = dict[str, Any]
_SHOWN = 100  # alerts, unless --limit says more
_COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}
_COMMANDS = ("list", "test", "watch")
_PAUSE = 1.0  # seconds between two looks at a journal


def rules(arguments: Sequence[str]) -> int:
    failures = ((UsageError, 2), ((ClientError, Failure, JournalError, OSError), 1))
    return run_command(lambda: _run(arguments), failures)


def _run(arguments: Sequence[str]) -> int:
    command = arguments[0] if arguments else ""
    if command in ("-h", "--help"):
        _parser("rewound rules").parse_args(arguments)
    if command not in _COMMANDS:
        raise UsageError(
            f"rules: the commands are {', '.join(f'`rewound rules {one}`' for one in _COMMANDS)}"
        )
    return {"list": _list, "test": _test, "watch": _watch}[command](arguments[1:])


def _parser(name: str) -> Parser:
    parser = Parser(name, __doc__)
    parser.add_argument(
        "rules", type=Path, nargs="?", metavar="FILE", help="rules in YAML (default: the built-in ones)"
    )
    add_output(parser, "json")
    return parser


def _rule_file(path: Path | None) -> RuleFile:
    from rewound.recording.rules.file import default_rules, read_rules

    return default_rules() if path is None else read_rules(path)


# rewound rules list


def _list(arguments: Sequence[str]) -> int:
    options = _parser("rewound rules list").parse_args(arguments)
    found = _rule_file(options.rules)
    output = Output.of(sys.stdout, options.color)
    if options.output == "json":
        output.json({"rules": [_described(rule) for rule in found.rules], "off": list(found.off)})
    else:
        for rule in found.rules:
            document = _described(rule)
            output.line(f"{rule.name}  {rule.severity}  {document['meaning']}")
            for name, value in document.get("parameters", {}).items():
                output.line(f"    {name}: {value}")
        for name in found.off:
            output.line(f"{name}  off")
    output.flush()
    return 0


def _described(rule: Rule) -> Document:
    from rewound.recording.rules.built_in import BuiltIn, length

    of = rule.of
    if not isinstance(of, BuiltIn):
        return {"name": rule.name, "severity": rule.severity, "builtIn": False, "meaning": of.text}
    parameters = {}
    for name, one in of.parameters.items():
        value = of.given[name]
        parameters[name] = (
            length(value) if one.kind == "duration" else list(value) if one.kind == "texts" else value
        )
    return {
        "name": rule.name,
        "severity": rule.severity,
        "builtIn": True,
        "meaning": of.meaning,
        "parameters": parameters,
    }


# rewound rules test


def _test(arguments: Sequence[str]) -> int:
    parser = _parser("rewound rules test")
    parser.add_argument("--since", type=moment, metavar="MOMENT", help=f"events from then on: {MOMENT}")
    parser.add_argument(
        "--until", type=moment, metavar="MOMENT", help="events up to then; now lets time pass"
    )
    parser.add_argument(
        "--limit",
        type=count,
        metavar="N",
        default=_SHOWN,
        help=f"print the first N alerts (default {_SHOWN})",
    )
    parser.add_argument(
        "--page-url", default="", metavar="URL", help="of the server whose page the links of alerts open"
    )
    add_source(parser, "no effect on what is tested: rules see all namespaces")
    options = parser.parse_args(arguments)
    if options.namespace:
        raise UsageError(
            '--namespace: rules see all namespaces; a rule may say event.namespace == "...", so leave it out'
        )
    found = _rule_file(options.rules)
    with open_source(options) as source, Progress("rules test") as progress:
        tried = _try(source, options, found, progress)
    report = _Report(found, tried, options.page_url, options.limit)
    output = Output.of(sys.stdout, options.color)
    if options.output == "json":
        output.json(report.document())
    else:
        report.print(output)
    output.flush()
    return 0


@contextmanager
def _feed_of(source: Source) -> Iterator[Feed]:
    from rewound.recording.query.folder_source import FolderSource
    from rewound.recording.query.server_source import ServerSource
    from rewound.recording.rules.feed import JournalFeed, ServerFeed

    if isinstance(source, FolderSource):
        yield JournalFeed(source.folder.journal, source)
    else:
        assert isinstance(source, ServerSource)
        yield ServerFeed(source)


def _try(source: Source, options: Options, found: RuleFile, progress: Progress) -> Tried:
    from rewound.recording.rules.engine import Engine
    from rewound.recording.rules.feed import END_OF_TIME
    from rewound.recording.rules.trial import try_rules

    with _feed_of(source) as feed:
        floor, head = feed.ends()
        after = floor if options.since is None else max(floor, _before(source, feed, options.since))
        upto = head if options.until is None else min(head, source.version(options.until).offset)
        if after > upto:
            raise UsageError(
                f"--since ({options.since.shown}) is after --until ({options.until.shown}); exchange them"
            )
        start = source.version(Moment(after)).time if after else 0
        if options.since is not None and options.since.time is not None:
            start = max(start, options.since.time)
        last = source.version(Moment(upto)).time if upto else 0
        if options.until is None:
            newest = feed.refused(last, END_OF_TIME)[-1:]
            end = max([last, *(one.time for one in newest)])
        else:
            asked = time.time_ns() // 1000 if options.until == Moment() else options.until.time or last
            end = max(last, asked)
        return try_rules(
            Engine(list(found.rules)),
            feed,
            (after, upto),
            (start, end),
            lambda done: progress(done, max(1, upto - after)),
        )


# rewound rules watch


def _watch(arguments: Sequence[str]) -> int:
    parser = Parser("rewound rules watch", __doc__)
    parser.add_argument(
        "where",
        nargs="?",
        default="",
        metavar="FOLDER|URL",
        help="a data folder, or a server (default: as elsewhere)",
    )
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="rules in YAML (default: the built-in ones); its sinks get nothing",
    )
    parser.add_argument(
        "--page-url", default="", metavar="URL", help="of the server whose page the links of alerts open"
    )
    add_output(parser, "json")
    add_source(parser, "no effect on what is watched: rules see all namespaces")
    options = parser.parse_args(arguments)
    if options.namespace:
        raise UsageError("--namespace: rules see all namespaces; leave it out")
    if options.file is not None:
        raise UsageError("--file: a file does not grow; `rewound rules test` tries rules on it")
    if options.where:
        _choose(options)
    found = _rule_file(options.rules)
    output = Output.of(sys.stdout, options.color)

    def show(alert: Alert) -> None:
        if options.output == "json":
            output.line(orjson.dumps(alert.document(options.page_url)).decode())
        else:
            _print_watched(output, alert, options.page_url)
        output.flush()

    with open_source(options) as source, _feed_of(source) as feed:
        _follow(found, feed, show)
    return 0


def _choose(options: Options) -> None:
    """Make FOLDER or URL the flag that it stands for."""
    if options.data_dir is not None or options.server:
        raise UsageError(f"{options.where}: give it, or --data-dir or --server, not both")
    if options.where.startswith(("http://", "https://")):
        options.server = options.where
    else:
        options.data_dir = Path(options.where)


def _follow(found: RuleFile, feed: Feed, show: Callable[[Alert], None]) -> None:
    """Show what fires now, and alerts as they come, until interrupted."""
    from rewound.recording.rules.delivery import GRACE
    from rewound.recording.rules.engine import Engine
    from rewound.recording.rules.trial import warming

    engine = Engine(list(found.rules))
    _, version = feed.ends()
    refused = now = time.time_ns() // 1000
    for _ in warming(engine, feed, version, now - GRACE):
        pass
    for alert in engine.firing():
        show(alert)
    while True:
        time.sleep(_PAUSE)
        now = time.time_ns() // 1000
        _, head = feed.ends()
        alerts: list[Alert] = []
        for occurrence in feed.between(version, head, feed.refused(refused, now)):
            alerts += engine.feed(occurrence)
        version, refused = head, now
        for alert in [*alerts, *engine.advance(now - GRACE)]:
            show(alert)


def _print_watched(output: Output, alert: Alert, base: str) -> None:
    severity = output.paint(f"{alert.severity:8}", _COLOURS[alert.severity])
    output.line(f"{exact(alert.time)}  {severity}  {alert.state:8}  {alert.rule}: {escaped(alert.message)}")
    output.line(f"    {base.rstrip('/')}{alert.fragment}")


def _before(source: Source, feed: Feed, since: Moment) -> int:
    """The version before the first event of a range; a time before the journal means all of it."""
    if since.time is not None:
        if since.time > max(time.time_ns() // 1000, source.version(Moment()).time):
            raise UsageError(f"--since: {since.shown} is in the future; take a time that has passed")
        return feed.version_at(since.time - 1)
    return source.version(since).offset - 1


class _Report:
    def __init__(self, found: RuleFile, tried: Tried, base: str, limit: int) -> None:
        self._found, self._tried, self._base, self._limit = found, tried, base, limit
        self._fired = [one for one in tried.alerts if one.state == "firing"]
        self._ended = {one.id: one for one in tried.alerts if one.state == "resolved"}

    def document(self) -> Document:
        tried = self._tried
        return {
            "from": rfc3339(tried.start) if tried.start else "",
            "to": rfc3339(tried.end),
            "events": tried.events,
            "refusedRequests": tried.refused,
            "existingObjects": tried.existing,
            "cpuSeconds": round(tried.seconds, 3),
            "alerts": [self._alert(one) for one in self._fired[: self._limit]],
            "alertsNotShown": max(0, len(self._fired) - self._limit),
            "rules": [self._rule(rule) for rule in self._found.rules],
        }

    def _alert(self, alert: Alert) -> Document:
        ended = self._ended.get(alert.id)
        document = alert.document(self._base)
        del document["state"]
        return {
            **document,
            "count": ended.count if ended else alert.count,
            "resolved": rfc3339(ended.time) if ended else None,
        }

    def _rule(self, rule: Rule) -> Document:
        counted = rule.statistics
        alerts = [one for one in self._fired if one.rule == rule.name]
        return {
            "name": rule.name,
            "severity": rule.severity,
            "alerts": len(alerts),
            "stillFiring": sum(one.id not in self._ended for one in alerts),
            "leftOut": counted.left_out,
            "events": counted.events,
            "matches": counted.matches,
            "evaluations": counted.costs.evaluations,
            "cost": {"total": counted.costs.total, "most": counted.costs.most},
            "failures": counted.failures,
            **({"failure": counted.failure} if counted.failures else {}),
            **({"forgotten": counted.forgotten} if counted.forgotten else {}),
            **({"off": counted.off} if counted.off else {}),
        }

    def print(self, output: Output) -> None:
        for alert in self._fired[: self._limit]:
            self._print_alert(output, alert)
        more = len(self._fired) - self._limit
        if more > 0:
            output.line(f"... and {more:,} more; --limit prints them")
        if self._fired:
            output.line("")
        width = max((len(rule.name) for rule in self._found.rules), default=0)
        for rule in self._found.rules:
            output.line(f"{rule.name:{width}}  {self._line(rule)}")
        tried = self._tried
        passed = (tried.end - tried.start) / 1_000_000 if tried.start else 0.0
        refused = f" and {tried.refused:,} refused requests" if tried.refused else ""
        within = f" of {span(passed)}" if passed else ""
        output.line(
            f"{tried.events:,} events{refused}{within} tested in {tried.seconds:.1f} s of processor time; "
            f"{len(self._fired):,} alerts"
        )

    def _print_alert(self, output: Output, alert: Alert) -> None:
        ended = self._ended.get(alert.id)
        severity = output.paint(f"{alert.severity:8}", _COLOURS[alert.severity])
        output.line(f"{exact(alert.started)}  {severity}  {alert.rule}: {escaped(alert.message)}")
        lasted = (
            f"resolved after {span((ended.time - alert.started) / 1_000_000)}" if ended else "still firing"
        )
        where = f"version {alert.version}" if alert.version else "a refused request"
        seen = f", {ended.count if ended else alert.count} times" if alert.count or ended else ""
        output.line(f"    {where}{seen}; {lasted}; {self._base.rstrip('/')}{alert.fragment}")

    def _line(self, rule: Rule) -> str:
        document, counted = self._rule(rule), rule.statistics
        parts = [f"{document['alerts']:,} alerts"]
        if document["stillFiring"]:
            parts.append(f"{document['stillFiring']:,} still firing")
        if counted.left_out:
            parts.append(f"{counted.left_out:,} left out by its rate limit")
        parts.append(f"looked at {counted.events:,} events")
        if counted.costs.evaluations:
            mean = counted.costs.total / counted.costs.evaluations
            parts.append(f"cost {mean:,.0f} in the mean, {counted.costs.most:,} at most")
        if counted.failures:
            parts.append(f"had no value for {counted.failures:,}: {escaped(counted.failure)}")
        if counted.forgotten:
            parts.append(f"forgot {counted.forgotten:,} keys, because its window was full")
        if counted.off:
            parts.append(f"switched off: {escaped(counted.off)}")
        return "; ".join(parts)
