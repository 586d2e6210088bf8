"""Reads the requests that a recorded server refused, from the file beside a recording, as far as a caller may see them.

`rewound record --audit-log` and `rewound import audit` write it (`recording.record.refused`): JSON lines, oldest first.
A line that was cut short by a crash is skipped.
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
    from rewound.rewind.page.parameters import Span
    from rewound.rewind.page.visibility import VisibleTypes

Document = dict[str, Any]

FILE: Final = "refused.jsonl"
LONGEST_LINE: Final = 64 << 10
_TEXTS: Final = (
    "user",
    "verb",
    "type",
    "subresource",
    "namespace",
    "name",
    "reason",
    "message",
    "userAgent",
    "manager",
)
_EMPTY: Final = {**dict.fromkeys(_TEXTS, ""), "code": 0}


def refused_file(place: Path) -> Path:
    """The file of a data folder, or beside a file that was exported from one."""
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
                yield {**_EMPTY, **_manager(found), **found, "time": int(found["time"])}
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
                continue


def _manager(found: Document) -> Document:
    """The field manager; in files of earlier releases, which lack it, derived from the user agent as a server does."""
    agent = found.get("userAgent")
    return {"manager": agent.partition("/")[0]} if isinstance(agent, str) else {}


def visible_refused(
    place: Path, visible: VisibleTypes, span: Span, sought: Filter, limit: int
) -> list[Document]:
    """Refused requests, newest first. They name users, so the caller must be allowed to see the authors of the type.

    A file may have megabytes: call it in a thread.
    """
    types = {seen.name: type_id for type_id, seen in visible.types.items()}
    newest: deque[Document] = deque(maxlen=limit)
    for one in refused_in(place.parent if place.name == "journal" else place):
        type_id = types.get(one["type"])
        if type_id is None or not span.start <= one["time"] < span.end:
            continue
        if _is_wanted(one, sought) and visible.shows_users_in(type_id, one["namespace"]):
            newest.append(one)
    return [{**one, "micros": one["time"], "time": rfc3339(one["time"])} for one in reversed(newest)]


def _is_wanted(one: Document, sought: Filter) -> bool:
    texts = {field: one[field] if isinstance(one[field], str) else "" for field in _TEXTS}
    for field in ("name", "verb", "user", "manager"):
        if not getattr(sought, field).matches(texts[field]):
            return False
    if not sought.status and texts["subresource"] == "status":
        return False
    if not sought.terms:
        return True
    from rewound.actors.rewind.search import (
        has_terms,
    )  # commands read the file without it, and should start fast

    return has_terms(sought.terms, f"{one['code']} {' '.join(texts.values())}")
