"""A moment of the history as clients write it: a resourceVersion, or a time in RFC 3339.

    1042                     the state right after the event with this version
    2024-05-01T12:03:00Z     the state after every event up to this time

A moment resolves to one version of the journal, from the retention floor to the newest one. Before the first event,
in a journal that has lost nothing, it is version 0: nothing existed. A moment in the future is a client error; one
that retention has removed is gone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from rewound.actors.errors import BadRequest, Expired
from rewound.actors.golang.quoting import quoted
from rewound.journal import history, keys
from rewound.journal.view import View

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_DIGITS: Final = 20
# An unescaped plus sign in a query arrives as a space.
_RFC3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+ -]\d{2}:\d{2})", re.ASCII
)
_QUOTED: Final = 64  # characters of a bad value that an error shows


class Moment(msgspec.Struct, frozen=True):
    """A version, or a time in microseconds since 1970; exactly one of them is set."""

    version: int | None = None
    time: int | None = None


def parse_moment(text: str, name: str = "at") -> Moment:
    """Parse a moment. Raises BadRequest, which names the query parameter `name`, if it is neither."""
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
        return Moment(version=int(text))
    if _RFC3339.fullmatch(text):
        try:
            read = datetime.fromisoformat(text.upper().replace(" ", "+"))
        except ValueError:
            pass
        else:
            return Moment(time=(read - _EPOCH) // _MICROSECOND)
    shown = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
    raise BadRequest(
        f"{name}: Invalid value: {quoted(shown)}: must be a resourceVersion, or a time like 2024-05-01T12:03:00Z"
    )


def resolve(view: View, moment: Moment, now: int, name: str = "at") -> int:
    """Return the version of a moment. Raises BadRequest if it is in the future, Expired if retention has removed it."""
    head, floor = view.head, view.floor
    if moment.time is None:
        assert moment.version is not None
        version = moment.version
        if version > head:
            raise BadRequest(
                f"{name}: version {version} is in the future: the newest version of this server is {head}"
            )
    else:
        if moment.time > now:
            newest = view.event(head, contents=False)
            if newest is None or moment.time > newest.time:
                raise BadRequest(f"{name}: {rfc3339(moment.time)} is in the future: it is {rfc3339(now)}")
        version = view.offset_at(moment.time)
    if version < floor:
        raise Expired(
            f"{name}: that is older than the journal keeps: the oldest version is {_oldest(view, floor)}"
        )
    return version


def thinned_warning(view: View, type_id: int, resource: str, version: int) -> str:
    """What to say about a type at a version that may not be exact, because events were dropped; empty if it is."""
    thinned = view.thinned.get(type_id)
    if thinned is None or not thinned.dropped or version >= thinned.upto:
        return ""
    when = rfc3339(thinned_time(view, thinned.upto))
    if thinned.whole and (namespaces := _cut_namespaces(view, type_id, version)):
        return (
            f"older versions of {resource} {namespaces} were dropped before {when} to keep --max-disk: {_CUT}"
        )
    if thinned.whole:
        return f"older versions of {resource} were dropped before {when}: {_INCOMPLETE}"
    return f"older renewals of {resource} were dropped before {when}: {_APPROXIMATE}"


def _cut_namespaces(view: View, type_id: int, version: int) -> str:
    """Where objects of a type took so much room that their versions after this one were dropped; empty: nowhere, or
    other versions were dropped too.
    """
    cuts = {scope: one for scope, one in view.cuts.items() if scope[:2] == keys.pack_type(type_id)}
    if max((one.upto for one in cuts.values()), default=0) < view.thinned[type_id].upto:
        return ""
    found = sorted({keys.names_of(scope)[0] for scope, one in cuts.items() if one.upto > version})
    if found == [""]:
        return "that took most room"
    more = f" and {len(found) - SHOWN_NAMESPACES} others" if len(found) > SHOWN_NAMESPACES else ""
    return f"in {', '.join(found[:SHOWN_NAMESPACES])}{more}"


SHOWN_NAMESPACES: Final = 3
_CUT: Final = "earlier, objects are missing there"
_INCOMPLETE: Final = "earlier, objects may be missing, or older than they were"
_APPROXIMATE: Final = "times in earlier versions may be older than they were"


def thinned_time(view: View, upto: int) -> int:
    """The time from which on everything is exact."""
    first = view.event(next(history.ascending(view, history.whole_log(view), upto), 0), contents=False)
    return 0 if first is None else first.time


def _oldest(view: View, floor: int) -> str:
    first = view.event(next(history.ascending(view, history.whole_log(view), floor + 1), 0), contents=False)
    return f"{floor}, from before {rfc3339(first.time)}" if first is not None else str(floor)


def rfc3339(micros: int) -> str:
    """Format microseconds since 1970, exactly."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat("T", "microseconds").replace("+00:00", "Z")
