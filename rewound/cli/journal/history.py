"""`rewound history`: the versions of an object, newest first, also of a deleted one.

    rewound history cm/web                               who changed it, when, and what
    rewound history deploy/web -n shop --limit 5
    rewound history deploy/web --field spec.replicas     only changes of this field
    rewound history pod/web-1 --no-status                without what only changed its status
    rewound history cm/web --changes                     every change on a line of its own
    rewound history cm/web --diff 9..12                  what changed between two versions or times
    rewound history cm/web --data-dir backup             of a data folder, without a server

-o json has the History of the API; each item also has its `changes`, with old and new values.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice

from rewound.actors.errors import BadRequest
from rewound.actors.golang.json import unescaped
from rewound.actors.rewind.difference import ABSENT, Change, below, describe, escaped
from rewound.actors.rewind.restore import field_of, parse_field
from rewound.actors.rewind.summary import compacted, summarize, summary_of
from rewound.cli.journal.diff import print_one
from rewound.cli.journal.flags import (
    Options,
    Parser,
    add_limit,
    add_managed_fields,
    add_object,
    add_output,
    add_show_secrets,
    add_source,
    add_uid,
    ends,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import (
    SIGN_COLORS,
    VERB_COLORS,
    Columns,
    Output,
    change_words,
    identity,
    masked_version,
    until_printed,
    with_manager,
)
from rewound.client.errors import Failure, UsageError
from rewound.journal.records import GUESSED
from rewound.recording.progress import Progress
from rewound.recording.query.entries import Document
from rewound.recording.query.moments import local, micros_of
from rewound.recording.query.source import Source, Wanted

_TITLES = ("VERSION", "TIME", "USER", "VERB", "MANAGER", "WHAT")
BATCH = 100  # versions printed together, in columns of the same width
# These change with every write, so they are not listed as changes.
_FOLLOW = frozenset({"metadata.generation", "metadata.managedFields", "metadata.resourceVersion"})


def add_flags(parser: Parser) -> None:
    add_object(parser)
    add_limit(parser)
    parser.add_argument("--reverse", action="store_true", help="oldest first")
    parser.add_argument(
        "--field", type=_field, metavar="FIELD", help="only changes of it, such as spec.replicas"
    )
    parser.add_argument("--no-status", action="store_true", help="without changes of the status")
    parser.add_argument("--changes", action="store_true", help="every change on a line of its own")
    parser.add_argument("--diff", type=ends, metavar="A..B", help="compare two versions or times instead")
    add_uid(parser)
    add_managed_fields(parser)
    add_show_secrets(parser)
    add_output(parser, "json")
    add_source(parser)


def _field(text: str) -> str:
    """Parse a path such as spec.replicas, or a JSON pointer."""
    try:
        steps = parse_field(text)
    except BadRequest:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a field; write it like spec.replicas or /spec/replicas"
        ) from None
    if not text.startswith("/"):
        return text
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else below(path, str(step))
    return path


def run(options: Options, output: Output) -> int:
    if options.diff is not None and options.uid:
        raise UsageError("--uid: not with --diff, which compares what had the name at both moments")
    if options.diff is not None:
        for flag in ("limit", "reverse", "field", "no_status", "changes"):
            if getattr(options, flag):
                raise UsageError(
                    f"--{flag.replace('_', '-')}: has no effect with --diff; leave one of them out"
                )
    with open_source(options) as source:
        wanted = source.wanted(options.kind, options.name, options.namespace, uid=options.uid)
        if options.diff is not None:
            print_one(source, wanted, options.diff, options, output)
            return 0
        with Progress("history: reading versions") as progress:
            versions: Iterator[Document] = islice(_versions(source, wanted, options), options.limit)
            if options.reverse:
                versions = reversed([*versions])
            if options.output == "json":
                _print_document(output, wanted, [with_manager(one) for one in versions])
            else:
                shown = until_printed(versions, progress, output)
                _print(output, shown, every=options.changes or bool(options.field))
    return 0


def _print_document(output: Output, wanted: Wanted, items: list[Document]) -> None:
    named = identity(wanted.kind, wanted.namespace or "", wanted.name)
    output.json({"kind": "History", "apiVersion": "rewound.cluster.io/v1", "object": named, "items": items})


def _versions(source: Source, wanted: Wanted, options: Options) -> Iterator[Document]:
    """Select the versions to print, each with its changes to print."""
    filtered = options.field or options.no_status
    mask = wanted.kind.is_secret and not options.show_secrets
    found = False
    for item in source.history(
        wanted, None if filtered else options.limit, managed_fields=options.show_managed_fields
    ):
        if filtered:
            shown = _filtered(item, options)
            if shown is None:
                continue
            item = shown
        found = True
        yield masked_version(item) if mask else item
    if not found:
        what = f"changed a field {options.field!r}" if options.field else "changed more than its status"
        blame = f"`rewound blame {options.kind}/{options.name}`"
        raise Failure(f"no version of {wanted.text} in the journal {what}; {blame} lists its fields")


def _filtered(item: Document, options: Options) -> Document | None:
    """A version with only the changes that the flags select; None if none are left."""
    changes = changes_of(item)
    whole = not changes and item["patch"] is not None and any(one["path"] == "" for one in item["patch"])
    if options.no_status:
        kept = [one for one in changes if one.path != "status" and not one.path.startswith("status.")]
        if not whole and changes and not [one for one in kept if one.path not in _FOLLOW]:
            return None
        changes = kept
    if options.field:
        if whole:
            changes = _of_whole(item, options.field)
        changes = [one for change in changes for one in _within(change, options.field)]
        if not changes:
            return None
    return {**item, "changes": [one.document() for one in changes]}


def _of_whole(item: Document, field: str) -> list[Change]:
    """The first value of a field, in the version that created the object."""
    (operation,) = item["patch"]
    value = field_of(parse_field(field), operation.get("value"), ABSENT)
    return [] if value is ABSENT else [Change(field, ABSENT, value)]


def _within(change: Change, field: str) -> Iterator[Change]:
    """The part of a change that lies within a field."""
    if change.path == field or change.path.startswith((field + ".", field + "[")):
        yield change
    elif field.startswith((change.path + ".", change.path + "[")):
        steps = parse_field(field[len(change.path) :].removeprefix("."))
        before, after = (
            ABSENT if value is ABSENT else field_of(steps, value, ABSENT)
            for value in (change.before, change.after)
        )
        if type(before) is not type(after) or before != after:
            yield Change(field, before, after)


def changes_of(item: Document) -> list[Change]:
    return [
        Change(one["path"], one.get("before", ABSENT), one.get("after", ABSENT))
        for one in item.get("changes") or ()
    ]


def _print(output: Output, versions: Iterator[Document], *, every: bool) -> None:
    """Print versions. `every`: all changes, each on a line of its own if there are several."""
    columns = Columns(output, _TITLES, ("VERSION",), {"USER": 6, "MANAGER": 6})
    while some := list(islice(versions, BATCH)):

        def print_changes(number: int, items: list[Document] = some) -> None:
            changes = changes_of(items[number])
            for change in changes if len(changes) > 1 else ():
                text = output.fit(escaped(f"        {change.sign} {describe(change)}"))
                output.line(output.paint(text, SIGN_COLORS[change.sign]))

        cells = [_cells(item, every=every) for item in some]
        columns.rows(cells, [_colors(item) for item in some], print_changes if every else None)


def _colors(item: Document) -> list[str]:
    return ["cyan", "dim", "", "red" if item.get("deleted") else VERB_COLORS.get(item["verb"], ""), "dim", ""]


def _cells(item: Document, *, every: bool) -> list[str]:
    guessed = " (guessed)" if item.get("guessed") else ""
    return [
        item["version"],
        local(micros_of(item["time"])),
        item["user"] + (" (guessed)" if item.get("userGuessed") else ""),
        item["verb"],
        item["fieldManager"] + guessed,
        _what(item, every=every),
    ]


def _what(item: Document, *, every: bool) -> str:
    reason = item.get("reason", "").removesuffix(GUESSED).removesuffix("; ")  # its own column marks it
    if item.get("deleted"):
        return f"{reason}: removed" if reason else "removed"
    if item.get("compacted"):
        return change_words(compacted(), reason)
    changes = changes_of(item)
    created = any(one["path"] == "" for one in item["patch"])
    if created and not changes:
        (whole,) = item["patch"]
        return change_words(summarize(None, unescaped(whole["value"]), secret=False), reason, created=True)
    if every and len(changes) > 1:
        return f"{reason}: {len(changes)} changes" if reason else f"{len(changes)} changes"
    return change_words(summary_of([one for one in changes if one.path not in _FOLLOW], secret=False), reason)
