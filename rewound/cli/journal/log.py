"""`rewound log`: who did what, when. One line per event, oldest first.

--since and --until take a version (1042), a time (2024-05-01T12:03:00Z, 12:03) or how long ago (10m).
With -f it follows new events, after the newest 10 unless --limit or --since says more; Ctrl-C ends it.
A terminal gets short names, and lines that end at its edge; a pipe gets everything.
Events at or below the retention floor (see stats) are what is left of older history: the version of each object
that was current there.

    rewound log --since 10m                              what happened in the last ten minutes
    rewound log deploy/web                               what happened to one object
    rewound log deploy -n shop -f                        follow the Deployments of a namespace
    rewound log --verb delete --user 'system:*'          what the server itself and its controllers deleted
    rewound log --limit 20 --file incident.journal.gz    the newest events of a file

A recording that was made with an audit log also has the requests that the server refused; they have no version.
What a flight recorder may have missed is a line with the verb gap, where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from rewound.cli.journal.flags import (
    Options,
    Parser,
    add_kinds,
    add_limit,
    add_output,
    add_show_secrets,
    add_source,
    moment,
    type_and_name,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import LogLines, Output, event_document, until_printed
from rewound.client.errors import Failure, UsageError
from rewound.journal.keys import MAX_OFFSET
from rewound.recording.progress import Progress
from rewound.recording.query.entries import VERBS, Entry, Selection, check_verb
from rewound.recording.query.moments import Moment, rfc3339
from rewound.recording.query.source import Source

BEFORE_FOLLOWING = 10  # events shown first, for context

_MICROS = ("fromMicros", "toMicros")

Document = dict[str, Any]
Show = Callable[[Sequence[Entry | Document]], None]


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "what", metavar="TYPE[/NAME]", nargs="?", default="", help="only these, such as deploy or deploy/web"
    )
    add_kinds(parser)
    parser.add_argument("--user", metavar="NAME", help="events of this user; * is a wildcard")
    parser.add_argument("--verb", metavar="VERB", help=f"{', '.join(VERBS)}; * is a wildcard")
    parser.add_argument("--since", type=moment, metavar="MOMENT", help="this event and later ones")
    parser.add_argument("--until", type=moment, metavar="MOMENT", help="this event and earlier ones")
    add_limit(parser)
    parser.add_argument("--reverse", action="store_true", help="newest first")
    parser.add_argument("-f", "--follow", action="store_true", help="follow new events")
    add_show_secrets(parser)
    add_output(parser, "json")
    add_source(parser, "objects of this namespace (default all); * is a wildcard")


def run(options: Options, output: Output) -> int:
    if options.follow and (options.until or options.reverse):
        raise UsageError("--follow: has no end, so leave out --until and --reverse")
    check_verb(options.verb)
    if options.what:
        if options.kind or options.name:
            raise UsageError("--kind and --name: TYPE/NAME is given already; leave these out")
        kinds, name = type_and_name(options.what, "")
        options.kind, options.name = kinds.split(","), name or None
    with open_source(options) as source:
        _log(source, options, output)
    return 0


def _log(source: Source, options: Options, output: Output) -> None:
    selection = replace(
        source.selection(options),
        user=options.user,
        verb=options.verb,
        contents=options.output == "json" or options.show_secrets,  # a server's summaries have no secrets
    )
    limit = options.limit
    if options.follow and options.since is None:
        limit = limit or BEFORE_FOLLOWING
    show = _show(source, options, output)
    head = source.version(Moment()).offset if options.follow else 0
    until = Moment(head) if head else options.until
    with Progress("log: reading events") as progress:
        events = source.log(selection, options.since, until, limit, reverse=options.reverse)
        missed = Missed(source, selection)
        found = events if options.follow else _with_refused(source, selection, options, events)
        found = missed.between(found, options)
        for entries in until_printed(found, progress, output):
            show(entries)
    if options.follow:
        output.flush()
        _follow(source.follow(selection, head), missed, show, output)


def _follow(new: Iterator[Sequence[Entry]], missed: Missed, show: Show, output: Output) -> None:
    """Follow new events until Ctrl-C, which is no error here."""
    try:
        for entries in new:
            show([*missed.new(), *entries])
            output.flush()
    except KeyboardInterrupt:
        return


def _show(source: Source, options: Options, output: Output) -> Show:
    if options.output == "text":
        chosen = options.kind or options.name or options.user or options.verb
        return LogLines(output, source.kind_of, follows=options.follow, folds=not chosen).print

    def show(entries: Sequence[Entry | Document]) -> None:
        for one in entries:
            if isinstance(one, Entry):
                output.json(event_document(one, source.kind_of(one.event.type_id)))
            elif "why" in one:
                output.json({"gap": True, **{key: value for key, value in one.items() if key not in _MICROS}})
            else:
                output.json({"refused": True, **one, "time": rfc3339(one["time"])})

    return show


class Missed:
    """What the recording may have missed of the selected kinds: those of several kinds are joined.

    The other conditions do not count: nobody knows whether an event that is not there would have met them.
    """

    def __init__(self, source: Source, selection: Selection) -> None:
        self._source = source
        self._kinds = {one.type_name for one in selection.kinds}
        self._shown: dict[tuple[str, int], bool] = {}  # reason and begin of gaps, and whether they have ended

    def _read(self) -> list[Document]:
        found = []
        for gap in self._source.gaps():
            kinds = self._kinds & set(gap["kinds"])
            if kinds or not (self._kinds and gap["kinds"]):
                found.append({**gap, "kinds": sorted(kinds) if kinds and gap["kinds"] else gap["kinds"]})
        if not found:
            return found
        from rewound.rewind.gap_texts import joined

        return joined(found)

    def between(
        self, events: Iterator[Sequence[Entry | Document]], options: Options
    ) -> Iterator[Sequence[Entry | Document]]:
        """Merge gaps into the events, each where it begins."""
        gaps = self._read()
        self._note(gaps)
        if not gaps:
            yield from events
            return
        since = _time(self._source, options.since, 0)
        until = _time(self._source, options.until, MAX_OFFSET)
        gaps = [
            one for one in gaps if one.get("toMicros", MAX_OFFSET) >= since and one["fromMicros"] <= until
        ]
        if not options.reverse:
            gaps.reverse()  # the next one is the last
        limited = bool(options.limit or options.follow)
        for entries in events:
            merged: list[Entry | Document] = []
            for entry in entries:
                time = entry.event.time if isinstance(entry, Entry) else int(entry["time"])
                while gaps and (gaps[-1]["fromMicros"] > time) is options.reverse:
                    gap = gaps.pop()
                    # A limit shows the newest events, and what is missing since the first of them.
                    if not limited or options.reverse or gap.get("toMicros", MAX_OFFSET) >= time:
                        merged.append(gap)
                limited = limited and options.reverse
                merged.append(entry)
            yield merged
        if not (limited and options.reverse):
            yield gaps[::-1]

    def new(self) -> list[Document]:
        """Those that have begun or ended since the last call."""
        found = [one for one in self._read() if self._shown.get(_key(one)) is not ("toMicros" in one)]
        self._note(found)
        return found

    def _note(self, gaps: Sequence[Document]) -> None:
        self._shown.update({_key(one): "toMicros" in one for one in gaps})


def _key(gap: Document) -> tuple[str, int]:
    return gap["why"], gap["fromMicros"]


def _with_refused(
    source: Source, selection: Selection, options: Options, events: Iterator[Sequence[Entry]]
) -> Iterator[Sequence[Entry | Document]]:
    """Merge the events and the requests that the recorded server refused, by time."""
    refused = [one for one in source.refused() if _is_selected(one, selection)]
    if not refused:
        yield from events
        return
    since, until = _time(source, options.since, 0), _time(source, options.until, MAX_OFFSET)
    kinds = {one.type_name: one.kind for one in source.kinds()}
    found = [
        {**one, "kind": kinds.get(one["type"], one["type"])}
        for one in refused
        if since <= one["time"] <= until
    ]
    found.sort(key=lambda one: int(one["time"]), reverse=not options.reverse)  # the next one is the last
    begun = not options.limit  # a limit shows the newest events, and what was refused since the first of them
    for entries in events:
        merged: list[Entry | Document] = []
        for entry in entries:
            while found and (found[-1]["time"] > entry.event.time) is options.reverse:
                request = found.pop()
                if begun or options.reverse:
                    merged.append(request)
            begun = True
            merged.append(entry)
        yield merged
    if not (options.limit and options.reverse):
        yield found[::-1]


def _time(source: Source, moment: Moment | None, otherwise: int) -> int:
    """A moment in microseconds since 1970; `otherwise` if there is none, or it is not in the journal."""
    if moment is None:
        return otherwise
    try:
        return moment.time if moment.time is not None else source.version(moment).time
    except Failure:
        return otherwise


def _is_selected(request: Document, selection: Selection) -> bool:
    if selection.kinds and request["type"] not in {one.type_name for one in selection.kinds}:
        return False
    conditions = ((name, getattr(selection, name)) for name in ("namespace", "name", "user", "verb"))
    return all(wanted is None or fnmatchcase(request[name], wanted) for name, wanted in conditions)
