"""`rewound since`: what differs from a moment when all was well, without noise.

    rewound since 10:00                       everything that is other than at ten
    rewound since 1042 deploy/web -n shop     one object
    rewound since 2h deploy,cm,secrets        some kinds

It compares like `rewound diff MOMENT`, and leaves out what the page hides as noise: Events, leases, and fields that
follow from others (status, generation, resourceVersion, managedFields). An object of which nothing else differs is left
out; --noise shows all. `rewound suspects` ranks what changed before one object broke.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rewound.actors.rewind.difference import Change
from rewound.cli.journal.diff import print_differences, print_document
from rewound.cli.journal.flags import (
    KIND,
    MOMENT,
    Options,
    Parser,
    add_output,
    add_show_secrets,
    add_source,
    moment,
    type_and_name,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output, until_printed
from rewound.client.errors import UsageError
from rewound.recording.progress import Progress
from rewound.recording.query.entries import Selection
from rewound.recording.query.moments import Moment
from rewound.recording.query.source import Difference, Source

NOISY_TYPES = ("leases", "events")  # plurals, as on the page
_FOLLOWS = ("status", "metadata.generation", "metadata.managedFields", "metadata.resourceVersion")


def add_flags(parser: Parser) -> None:
    parser.add_argument("moment", metavar="MOMENT", type=moment, help=MOMENT)
    parser.add_argument(
        "what", nargs="*", metavar="TYPE,...|TYPE/NAME", help=f"one object, or some kinds; TYPE: {KIND}"
    )
    parser.add_argument("--noise", action="store_true", help="show Events, leases and statuses too")
    add_show_secrets(parser)
    add_output(parser, "json")
    add_source(parser, "objects of this namespace (default all; of one object, that of the context)")


def run(options: Options, output: Output) -> int:
    with open_source(options) as source:
        selection = _selection(source, options)
        ends = source.version(options.moment), source.version(Moment())
        with Progress("since", len(selection.kinds or source.kinds())) as progress:
            found = source.differences(selection, (ends[0].offset, ends[1].offset), progress)
            shown = until_printed(found if options.noise else _telling(found), progress, output)
            (print_document if options.output == "json" else print_differences)(output, ends, shown)
    return 0


def _selection(source: Source, options: Options) -> Selection:
    what: list[str] = options.what
    if len(what) > 2:
        raise UsageError(f"{what[2]!r}: after the moment come a kind and a name, no more")
    kind, name = type_and_name(what[0], what[1] if len(what) == 2 else "") if what else ("", "")
    if name:
        wanted = source.wanted(kind, name, options.namespace)
        return Selection((wanted.kind,), wanted.namespace, wanted.name, show_secrets=options.show_secrets)
    options.kind, options.name = (kind.split(",") if kind else []), None
    selection = source.selection(options)
    if kind or options.noise:
        return selection
    kinds = source.kinds(selection.one_namespace or "")
    return replace(selection, kinds=tuple(one for one in kinds if not is_noisy(one.type_name)))


def is_noisy(type_name: str) -> bool:
    return type_name.partition(".")[0] in NOISY_TYPES


def _telling(differences: Iterator[Difference]) -> Iterator[Difference]:
    """The differences without fields that follow from others."""
    for one in differences:
        changes = [change for change in one.changes if not _is_noise(change)]
        if changes or one.sign != "~":
            yield replace(one, changes=changes)


def _is_noise(change: Change) -> bool:
    return any(change.path == path or change.path.startswith((f"{path}.", f"{path}[")) for path in _FOLLOWS)
