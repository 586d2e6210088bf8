"""`rewound status` of a flight recorder: what it records and since when, how far it is behind, and what is missing.

A server is asked for the document of its recorder; a folder has the one that its recorder wrote last, and what the
journal and the list of gaps say. The folder of several clusters has one of each.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from rewound.actors.rewind.difference import escaped
from rewound.cli.access.flags import Options, open_session
from rewound.client.errors import Failure, StatusError
from rewound.recording.query.entries import size
from rewound.recording.query.moments import local, micros_of, span

Document = dict[str, Any]

PATH = "/debug/rewound/flight"
NAMED = 5  # kinds in a line
SHOWN_GAPS = 10


def flight_status(options: Options, not_recording: int) -> int:
    """Print the status of what the flags name; returns `not_recording` if one of several recorders records nothing."""
    found = _of_folder(options) if options.data_dir is not None else [_of_server(options)]
    if options.output == "json":
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        for number, one in enumerate(found):
            print("" if not number else "\n", end="")
            for title, text in lines_of(one):
                print(f"{title:10}  {escaped(text)}".rstrip())
    return 0 if all(one["recording"] for one in found) else not_recording


def _of_server(options: Options) -> Document:
    with open_session(options) as session:
        try:
            found: Document = session.request("GET", PATH)
        except StatusError as error:
            if error.code != 404:
                raise
            found = {}
        if found.get("kind") != "Flight":
            raise Failure(
                f"{session.target.server} records no cluster; name the server of a `rewound flight`, or its folder "
                "with --data-dir"
            )
    return found


def _of_folder(options: Options) -> list[Document]:
    from rewound.journal.errors import JournalError
    from rewound.recording.flight.status import recordings_in, status_of_folder

    try:
        return [status_of_folder(one) for one in recordings_in(options.data_dir)]
    except JournalError as error:
        raise Failure(str(error)) from error


def lines_of(found: Document) -> list[tuple[str, str]]:
    """Titles and texts."""
    disk = found.get("disk", {})
    lines = [("folder", found.get("folder", "")), ("server", _server(found)), ("records", _records(found))]
    lines += [("since", _since(found)), ("lag", _lag(found)), ("keeps", _kept(found)), ("disk", _disk(disk))]
    lines += _titled("room", [_share(one) for one in disk.get("shares", [])[:_SHARES]])
    lines += _titled("warning", [disk["warning"]] if disk.get("warning") else [])
    left_out = [_left_out_objects(one) for one in found.get("leftOutObjects", [])]
    lines += _titled("left out", left_out + [_left_out(one) for one in found.get("leftOut", [])])
    lines += _titled("gaps", _gaps(found.get("gaps", [])))
    lines += _titled("problem", [one for one in (found.get("problem"), disk.get("problem")) if one])
    return [(title, text) for title, text in lines if text]


def _titled(title: str, texts: list[str]) -> list[tuple[str, str]]:
    return [("" if number else title, text) for number, text in enumerate(texts)]


def _server(found: Document) -> str:
    if not found.get("server"):
        return ""
    return f"{found['server']}, Kubernetes {found['kubernetes']}"


def _records(found: Document) -> str:
    kinds = found.get("kinds", 0)
    listed = found.get("listedKinds", kinds)
    counts = (
        f"{found.get('objects', 0):,} objects of {kinds if listed == kinds else f'{listed} of {kinds}'} kinds"
    )
    if found["recording"]:
        return "; ".join([f"yes, {counts}", *_all_but(found.get("leftOutObjects", []))])
    if not found.get("listed", True):
        return "not yet: the first lists are not complete"
    return "no"


def _all_but(left_out: list[Document]) -> list[str]:
    """The objects that are missing."""
    if not left_out:
        return []
    texts = []
    for one in left_out[:NAMED]:
        texts.append(
            f"{one['count']:,} {'object' if one['count'] == 1 else 'objects'} of {one['kind']} ({one['why']})"
        )
    more = len(left_out) - NAMED
    return ["all but " + ", ".join(texts) + (f" and some of {more} more kinds" if more > 0 else "")]


def _left_out_objects(one: Document) -> str:
    names = ["/".join(filter(None, (named["namespace"], named["name"]))) for named in one["objects"]]
    shown = [name or "an object without a name" for name in names]
    more = one["count"] - len(shown)
    return f"{one['kind']}: {', '.join(shown)}{f' and {more:,} more' if more > 0 else ''}: {one['why']}"


def _since(found: Document) -> str:
    """From when on every moment can be shown, and when the recording began, if that was before."""
    since, began = found.get("disk", {}).get("since"), found.get("began")
    texts = []
    if since:
        texts.append(f"{_time(since)} ({_ago(since)})")
    if began and (not since or micros_of(since) - micros_of(began) > 60_000_000):
        texts.append(f"it began at {_time(began)}")
    return "; ".join(texts)


def _lag(found: Document) -> str:
    if found["recording"]:
        return f"{found['lagSeconds']:.1f}s"
    silent = found.get("silentSeconds")
    return (
        f"the API server was last heard {span(silent)} ago" if silent and found.get("running", True) else ""
    )


def _kept(found: Document) -> str:
    retention = found.get("retention")
    if retention is None:
        return ""
    whole = _duration(retention["seconds"]) if retention["seconds"] else "everything"
    kinds = [f"renewals of {kind} {_duration(seconds)}" for kind, seconds in retention["byKind"].items()]
    kinds += [f"{kind} {_duration(seconds)}" for kind, seconds in retention.get("forget", {}).items()]
    return ", ".join([whole, *kinds])


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"


def _disk(disk: Document) -> str:
    if "used" not in disk:
        return ""
    text = f"{size(disk['used'])} used, {size(disk['file'])} in the file"
    if disk.get("most"):
        text += f", limit {size(disk['most'])}"
    if disk.get("perDay") is not None:
        text += f"; events take about {size(disk['perDay'])} a day"
    return text


_SHARES = 5


def _share(one: Document) -> str:
    """How much of the events a namespace, or a kind without one, has, and which object of it most."""
    text = f"{one['namespace'] or one['kind']} {one['percent']:g}%, {size(one['bytes'])} of events"
    largest = next(iter(one["objects"]), None)
    if largest is not None and largest["bytes"] > one["bytes"] / 2:
        text += f", {size(largest['bytes'])} of {largest['kind']}/{largest['name']}"
    return text


def _left_out(one: Document) -> str:
    named = _kinds(one["kinds"])
    return f"{named}: {one['why']}" if named else str(one["why"])


def _kinds(kinds: list[str]) -> str:
    more = len(kinds) - NAMED
    return ", ".join(kinds[:NAMED]) + (f" and {more} more kinds" if more > 0 else "")


def _gaps(gaps: list[Document]) -> list[str]:
    """The newest gaps of each reason, in one line where many kinds have the same."""
    from rewound.rewind.gap_texts import joined, text_of

    found = joined([_in_micros(one) for one in gaps])
    texts = [f"{_span(one)}: {text_of(one)}" for one in found[-SHOWN_GAPS:]]
    if len(found) > SHOWN_GAPS:
        texts.append(f"and {len(found) - SHOWN_GAPS} before")
    return texts or ["none"]


def _in_micros(gap: Document) -> Document:
    ends = {"toMicros": micros_of(gap["to"])} if "to" in gap else {}
    return {**gap, "fromMicros": micros_of(gap["from"]), **ends}


def _span(gap: Document) -> str:
    start, end = gap["fromMicros"], gap.get("toMicros")
    return f"{local(start)} for {span((end - start) / 1e6)}" if end else f"{local(start)} until now"


def _time(text: str) -> str:
    return local(micros_of(text))[:19]


def _ago(text: str) -> str:
    return f"{span(max(0.0, datetime.now(UTC).timestamp() - micros_of(text) / 1e6))} ago"
