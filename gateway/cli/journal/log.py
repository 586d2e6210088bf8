"""`rewound journal log`: who did what, when. One line per event, oldest first.

--since and --until take an offset (1042), a time (2024-05-01T12:03:00Z, 12:03) or how long ago (10m).
With -f it follows a live server, after the newest 10 events unless --limit or --since says more; Ctrl-C ends it.
Events at or below the retention floor (see stats) are what is left of older history: the version of each object
that was current there.

    rewound journal log --since 10m                      what happened in the last ten minutes
    rewound journal log --kind deployments.apps -f       follow the Deployments of a server that runs
    rewound journal log --verb delete --user 'system:*'  what the server itself and its controllers deleted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rewound.gateway.cli.command import UsageError
from rewound.gateway.cli.journal.printing import LogLines, Output, event_document
from rewound.gateway.cli.journal.query.events import (
    VERBS,
    Entry,
    EventReader,
    check_verb,
    follow,
    parse_selection,
)
from rewound.gateway.cli.journal.query.flags import (
    Options,
    Parser,
    add_kinds,
    add_limits,
    add_output,
    add_show_secrets,
    moment,
)
from rewound.gateway.cli.journal.query.folder import Folder, Masking, open_folder
from rewound.gateway.cli.journal.query.moments import event_range

BEFORE_FOLLOWING = 10  # events shown first, for context

Show = Callable[[Sequence[Entry]], None]


def add_flags(parser: Parser) -> None:
    add_kinds(parser)
    parser.add_argument("--user", metavar="NAME", help="events of this user; * is a wildcard")
    parser.add_argument("--verb", metavar="VERB", help=f"{', '.join(VERBS)}; * is a wildcard")
    parser.add_argument("--since", type=moment, metavar="MOMENT", help="this event and later ones")
    parser.add_argument("--until", type=moment, metavar="MOMENT", help="this event and earlier ones")
    add_limits(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow new events")
    add_show_secrets(parser)
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    if options.follow and (options.until or options.reverse):
        raise UsageError("--follow: has no end, so leave out --until and --reverse")
    check_verb(options.verb)
    with open_folder(options.data_dir) as folder:
        _log(folder, options, output)
    return 0


def _log(folder: Folder, options: Options, output: Output) -> None:
    selection = replace(parse_selection(folder.kinds, options), user=options.user, verb=options.verb)
    masking = Masking(folder.kinds, show_secrets=options.show_secrets)
    reader = EventReader(folder.journal, selection, masking)
    with folder.journal.read() as view:
        first, last = event_range(view, options.since, options.until)
        head = view.head
    limit = options.limit
    if options.follow and options.since is None:
        limit = limit or BEFORE_FOLLOWING
    show = _show(folder, options, output)
    _print(reader, (first, last), limit, options.reverse, show)
    if options.follow:
        output.flush()
        follow(folder.journal, reader, head, _flushing(show, output))


def _print(
    reader: EventReader, bounds: tuple[int, int], limit: int | None, reverse: bool, show: Show
) -> None:
    first, last = bounds
    if limit is not None:
        first = reader.newest(limit, first, last)
    for entries in (reader.backward if reverse else reader.forward)(first, last):
        show(entries)


def _flushing(show: Show, output: Output) -> Show:
    def flushed(entries: Sequence[Entry]) -> None:
        show(entries)
        output.flush()

    return flushed


def _show(folder: Folder, options: Options, output: Output) -> Show:
    if options.output == "text":
        return LogLines(output, folder.kinds, follows=options.follow).print

    def show(entries: Sequence[Entry]) -> None:
        for entry in entries:
            output.json(event_document(entry, folder.kinds.of_type_id(entry.event.type_id)))

    return show
