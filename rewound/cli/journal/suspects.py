"""`rewound suspects`: what changed before an object broke, ranked, each change with its reasons.

    rewound suspects pod/web-1                      when it broke, and what changed in the day before that
    rewound suspects deploy/web -n shop --since 1h  changes of the last hour only
    rewound suspects deploy/web --at 10:00          as it was known at ten
    rewound suspects pod/web-1 --data-dir backup    from a data folder, without a server

It first says when the object broke: its phase, conditions, containers, Events and refused requests. Then it looks at
what the object is made of and depends on (owners and templates, ConfigMaps, Secrets, its account and roles, claims,
its node) and at what applies to it (quotas, policies, webhooks, autoscalers). Changes weigh by their distance, the time
before the failure, how rare they are, what they do, and whether the messages name them. The same journal always has
the same order, and nothing is learned or guessed: the reasons are all there is.
"""

from __future__ import annotations

from typing import Any

from rewound.actors.rewind.difference import escaped
from rewound.actors.rewind.summary import line_of
from rewound.cli.journal.flags import (
    MOMENT,
    Options,
    Parser,
    add_object,
    add_output,
    add_source,
    count,
    moment,
)
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output
from rewound.recording.query.entries import object_name
from rewound.recording.query.moments import Moment, local

SHOWN = 5


def add_flags(parser: Parser) -> None:
    add_object(parser)
    parser.add_argument(
        "--since", type=moment, metavar="MOMENT", help=f"{MOMENT} (default: a day before it broke)"
    )
    parser.add_argument(
        "--at", type=moment, default=Moment(), metavar="MOMENT", help=f"{MOMENT} (default: now)"
    )
    parser.add_argument(
        "--limit",
        type=count,
        default=SHOWN,
        metavar="N",
        help=f"show N suspects (default {SHOWN}, at most 20)",
    )
    add_output(parser, "json")
    add_source(parser)


def run(options: Options, output: Output) -> int:
    with open_source(options) as source:
        wanted = source.wanted(options.kind, options.name, options.namespace)
        found = source.suspects(wanted, options.at, options.since)
    found["items"], cut = found["items"][: options.limit], found["items"][options.limit :]
    if more := len(cut) + found.get("more", 0):
        found["more"] = more
    if options.output == "json":
        output.json(found)
    else:
        _print(output, found)
    return 0


def _print(output: Output, found: dict[str, Any]) -> None:
    title = f"{found['object']['type']} {object_name(found['object']['namespace'], found['object']['name'])}"
    broke = found["broke"]
    if found["broken"]:
        before = f"; before: {broke['before']}" if broke["before"] else "; it never was well"
        text = (
            f"{title}: {broke['phase']} since {local(broke['micros'])} (version {broke['version']}){before}"
        )
    else:
        text = f"{title}: nothing in the journal says that it is broken; the newest changes around it:"
    output.line(output.paint(escaped(text), "bold"))
    for one in found["symptoms"][:SHOWN]:
        about = f"{one['object']['type']} {one['object']['name']}"
        words = f"  {local(one['micros'])} {one['source']} of {about}: {one['reason']} {one['message']}"
        output.line(output.fit(escaped(words)))
    for rank, one in enumerate(found["items"], 1):
        output.line("")
        _print_item(output, rank, one)
    if not found["items"]:
        output.line("no change before it is a suspect; --since looks further back")
    output.line("")
    if found.get("more"):
        output.line(output.paint(f"{found['more']} weaker suspects; --limit shows more", "dim"))
    looked = found["looked"]
    since = found["from"]["time"] or "the beginning"
    text = f"looked at {looked['objects']} objects and {looked['events']} events since {since}"
    output.line(output.paint(text, "dim"))
    for text in found["leftOut"]:
        output.line(output.paint(escaped(f"not looked at: {text}"), "dim"))


def _print_item(output: Output, rank: int, one: dict[str, Any]) -> None:
    what = f"{one['type']} {object_name(one['namespace'], one['name'])}"
    head = f"{rank}. {what} was {one['action']} at {local(one['micros'])} (version {one['version']})"
    if one.get("user"):
        manager = f" with {one['fieldManager']}" if one.get("fieldManager") else ""
        head += f" by {one['user']}{manager}"
    output.line(output.fit(output.paint(escaped(head), "bold")))
    for text in (line_of(one["summary"]) if "summary" in one else "", one.get("message", "")):
        if text:
            output.line(output.fit(f"   {escaped(text)}"))
    output.line(output.fit(escaped(f"   {one['relation']}; {'; '.join(one['reasons'])}")))
    if one.get("others"):
        output.line(output.paint(f"   and {one['others']} other changes of it", "dim"))
