"""Refused requests: a file of JSON lines beside the journal, oldest first, and what a caller may see of it.

A server writes the writes that it refused itself (`RefusedWrites`); `rewound record --audit-log` and
`rewound import audit` write those of the recorded server (`recording.record.refused`). A line that was cut short by a
crash is skipped. Rejected: events of the journal, because a refused request would then take a version and an fsync.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from rewound.actors.rewind.moments import rfc3339

if TYPE_CHECKING:  # commands read the file too, and should start fast
    from rewound.actors.rewind.timeline import Filter
    from rewound.gateway.pipeline.context import RequestContext
    from rewound.gateway.pipeline.errors import Failure
    from rewound.rewind.page.parameters import Span
    from rewound.rewind.page.visibility import VisibleTypes

Document = dict[str, Any]

logger = logging.getLogger(__name__)

FILE: Final = "refused.jsonl"
# The file of `rewound record` beside the journal (`rewound/recording/record/recorder.py`).
RECORDING: Final = "recording.json"
LONGEST_LINE: Final = 64 << 10
LARGEST: Final = (
    4 << 20
)  # bytes of the file of a running server; then conflicts, and the older half, are dropped
_PENDING: Final = 1000  # requests that wait to be written; of more, the newest
_MESSAGE: Final = 2000  # characters
# A request without rights for a path that does not exist, and one that the server was too busy for, say nothing about
# objects. Evictions are the exception: 429 is the response of a disruption budget.
_KEPT: Final = frozenset((400, 403, 405, 409, 413, 422))
# Messages with these codes have users, names and versions only; others may quote the request's body.
_QUOTE_NOTHING: Final = (401, 403, 404, 409, 429)
_TOO_LATE: Final = ("Operation cannot be fulfilled on", "already exists")
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
                entry = {**_EMPTY, **_manager(found), **found, "time": int(found["time"])}
                yield {**entry, "conflict": is_conflict(entry)}
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
                continue


def _manager(found: Document) -> Document:
    """The field manager; in files of earlier releases, which lack it, derived from the user agent as a server does."""
    agent = found.get("userAgent")
    return {"manager": agent.partition("/")[0]} if isinstance(agent, str) else {}


def is_conflict(entry: Document) -> bool:
    """Whether another client was faster: the write names an old version, or creates what exists.

    Clients read again and try again, so that is no refusal of what they want. A conflict of field managers in an apply
    is one: it occurs again until somebody decides.
    """
    text = str(entry["message"])
    if entry["code"] != 409 or text.startswith("admission webhook"):
        return False
    return not text or any(late in text for late in _TOO_LATE)


def may_quote_secret(group: str, resource: str, subresource: str, code: int) -> bool:
    """Whether the message of a refusal may quote secret values of the request."""
    secret = (
        (resource == "secrets" and not group)
        or resource == "tokenreviews"
        or (resource == "serviceaccounts" and subresource == "token")
    )
    return secret and code not in _QUOTE_NOTHING


class RefusedWrites:
    """Appends the writes that this server refused to the file, without fsync and apart from the requests.

    Several processes of a server may append to the same file.
    """

    def __init__(
        self, folder: Path, now: Callable[[], int], start: Callable[[Callable[[], Any]], None]
    ) -> None:
        """`now`: in nanoseconds; `start` starts a task."""
        self._path = folder / FILE
        self._now = now
        self._start = start
        self._pending: deque[Document] = deque(maxlen=_PENDING)
        self._written: Any = None  # set while a task writes: an event

    def add(self, context: RequestContext, failure: Failure) -> None:
        route, code = context.route, failure.code
        if code not in _KEPT and not (code == 429 and route.subresource == "eviction"):
            return
        quotes = may_quote_secret(route.group, route.resource, route.subresource, code)
        agent = context.request.headers.get(b"user-agent", b"").decode(errors="replace")
        self._pending.append(
            {
                "time": self._now() // 1000,
                "user": context.user.name,
                "verb": route.verb,
                "type": f"{route.resource}.{route.group}" if route.group else route.resource,
                "subresource": route.subresource,
                "namespace": route.namespace,
                "name": route.name or str((failure.details or {}).get("name", "")),
                "code": code,
                "reason": failure.reason,
                "message": "" if quotes else failure.message[:_MESSAGE],
                "userAgent": agent[:200],
                "manager": context.manager,
            }
        )
        if self._written is None:
            import trio  # commands read the file without it, and should start fast

            self._written = trio.Event()
            self._start(self._write)

    async def written(self) -> None:
        """Wait until the requests that were refused so far are in the file."""
        if self._written is not None:
            await self._written.wait()

    async def _write(self) -> None:
        from rewound.actors.runtime.threads import run_in_thread

        written = self._written
        try:
            while self._pending:
                some = list(self._pending)
                self._pending.clear()
                await run_in_thread(_append, self._path, some)
        except OSError as error:
            logger.warning("refused requests are not stored: %s", error)
        finally:
            self._written = None
            written.set()


def _append(path: Path, documents: list[Document]) -> None:
    if path.with_name(RECORDING).exists():
        return  # the file has what the recorded server refused
    lines = b"".join(orjson.dumps(one) + b"\n" for one in documents)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if stream.seek(0, os.SEEK_END) + len(lines) > LARGEST:
            kept = b"".join(
                orjson.dumps(one) + b"\n" for one in refused_in(path.parent) if not one["conflict"]
            )
            if len(kept) > LARGEST // 2:
                kept = kept[-LARGEST // 2 :].partition(b"\n")[2]
            stream.truncate(0)
            lines = kept + lines
        stream.write(lines)


def visible_refused(
    place: Path, visible: VisibleTypes, span: Span, sought: Filter, limit: int, *, conflicts: bool
) -> list[Document]:
    """Refused requests, newest first, with or without conflicts. They name users, so the caller must be allowed to see
    the authors of the type.

    A file may have megabytes: call it in a thread.
    """
    types = {seen.name: type_id for type_id, seen in visible.types.items()}
    newest: deque[Document] = deque(maxlen=limit)
    for one in refused_in(place.parent if place.name == "journal" else place):
        type_id = types.get(one["type"])
        if type_id is None or (one["conflict"] and not conflicts) or not span.start <= one["time"] < span.end:
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
