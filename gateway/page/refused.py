"""Requests that a recorded server refused: the file beside the journal of a recording, and what callers see of it.

`rewound record --audit-log` and `rewound import audit` write it (`gateway/record/refused.py`): JSON lines, oldest
first.
Readers take what is there: a line that is cut short, after a crash, is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from rewound.actors.rewind.moments import rfc3339

if TYPE_CHECKING:  # commands read the file too, and should start fast
    from rewound.actors.rewind.timeline import Filter
    from rewound.gateway.page.parameters import Span
    from rewound.gateway.page.visibility import VisibleTypes

Document = dict[str, Any]

FILE: Final = "refused.jsonl"
LONGEST_LINE: Final = 64 << 10
_TEXTS: Final = ("user", "verb", "type", "namespace", "name", "reason", "message", "userAgent")
_EMPTY: Final = {**dict.fromkeys(_TEXTS, ""), "code": 0}


def refused_file(place: Path) -> Path:
    """Of a data folder, or beside a file that was exported from one."""
    return place / FILE if place.is_dir() else place.with_name(f"{place.name}.{FILE}")


def refused_in(place: Path) -> Iterator[Document]:
    """The refused requests of a recording, with times in microseconds; none without the file."""
    try:
        stream = refused_file(place).open("rb")
    except FileNotFoundError:
        return
    with stream:
        while line := stream.readline(LONGEST_LINE):
            try:
                found = orjson.loads(line)
                yield {**_EMPTY, **found, "time": int(found["time"])}
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                continue


def visible_refused(
    place: Path, visible: VisibleTypes, span: Span, sought: Filter, limit: int
) -> list[Document]:
    """The newest ones first. They name users, so the caller must see who wrote events of the type, too.

    A file may have megabytes: call it in a thread.
    """
    types = {seen.name: type_id for type_id, seen in visible.types.items()}
    newest: deque[Document] = deque(maxlen=limit)
    for one in refused_in(place.parent if place.name == "journal" else place):
        type_id = types.get(one["type"])
        if type_id is None or not span.start <= one["time"] < span.end:
            continue
        wanted = ((sought.name, one["name"]), (sought.verb, one["verb"]), (sought.user, one["user"]))
        if all(patterns.matches(text) for patterns, text in wanted) and visible.shows_users_in(
            type_id, one["namespace"]
        ):
            newest.append(one)
    return [{**one, "micros": one["time"], "time": rfc3339(one["time"])} for one in reversed(newest)]
