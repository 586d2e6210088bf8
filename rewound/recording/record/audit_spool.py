"""The spool of the audit webhook: events that were acknowledged, until their changes have been completed.

    OUT/audit-webhook/spool/1700000000.jsonl     begun in that second; one JSON line for each event, without contents
    {"request": {...}}                           an event
    {"used": "5d41...", "marked": false}         it made a change, or only marked its object as deleted

A file is begun every LATE_SECONDS, and removed when nothing in it is waited for any more. An event is on disk before
its sender gets a 200. Uses are written with the next events: after a kill, an event whose use is not in the file is
only offered again to changes that have no author, and its version, uid and time still say which one it made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from rewound.journal.files.private import private_folder
from rewound.recording.record.authors import LATE_SECONDS
from rewound.recording.record.requests import Request

_KEPT: Final = 3 * LATE_SECONDS  # seconds
_NAMES: Final = tuple(one.name for one in fields(Request))


class Spool:
    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        """`now()` in seconds since 1970."""
        self._folder = folder
        self._now = now
        self._stream: BinaryIO | None = None
        self._begun = 0
        self._uses: list[bytes] = []

    def append(self, requests: Sequence[Request]) -> None:
        """Store events; durable when this returns. Raises OSError; then none of them counts."""
        uses, self._uses = self._uses, []
        lines = [
            orjson.dumps({"request": _stored(one)}, option=orjson.OPT_APPEND_NEWLINE) for one in requests
        ]
        stream = self._open()
        end = stream.seek(0, os.SEEK_END)
        try:
            stream.write(b"".join([*uses, *lines]))
            os.fdatasync(stream.fileno())
        except OSError:
            stream.truncate(end)  # the rest of a line would damage the next one
            raise

    def note_use(self, request: Request, marked: bool) -> None:
        """Remember that an event made a change, or marked its object as deleted."""
        used = {"used": digest(request).hex(), "marked": marked}
        self._uses.append(orjson.dumps(used, option=orjson.OPT_APPEND_NEWLINE))

    def load(self) -> Iterator[tuple[Request, int, bool]]:
        """The events of earlier runs, oldest first, with their number of uses, and whether they marked an object."""
        found: dict[str, tuple[Request, int, bool]] = {}
        for path in self._files():
            for line in path.read_bytes().split(b"\n"):
                try:
                    self._load(orjson.loads(line), found)
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    continue  # the end of a line that a kill, or a full disk, cut off
        yield from found.values()

    def _load(self, line: Any, found: dict[str, tuple[Request, int, bool]]) -> None:
        if "used" in line:
            request, uses, _ = found[line["used"]]
            found[line["used"]] = request, uses + 1, bool(line["marked"])
            return
        given = line["request"]
        request = Request(**{**given, "addresses": tuple(given["addresses"])})
        found[digest(request).hex()] = request, 0, False

    def close(self) -> None:
        """Write the uses that no event has taken with it."""
        if self._stream is not None:
            self._stream.write(b"".join(self._uses))
            self._stream.close()
            self._stream = None

    def _open(self) -> BinaryIO:
        now = int(self._now())
        if self._stream is None or now - self._begun >= LATE_SECONDS:
            if self._stream is not None:
                self._stream.close()
                self._stream = None
            private_folder(self._folder)
            for path in self._files():
                if _begun(path) < now - _KEPT:
                    path.unlink()
            path = self._folder / f"{now}.jsonl"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._stream, self._begun = os.fdopen(descriptor, "r+b", buffering=0), now
        return self._stream

    def _files(self) -> list[Path]:
        found = [path for path in self._folder.glob("*.jsonl") if path.stem.isdecimal()]
        return sorted(found, key=_begun)


def _begun(path: Path) -> int:
    return int(path.stem)


def _stored(request: Request) -> dict[str, Any]:
    """The fields of a request. Its message is in the file of refused requests, or was left out there with a reason."""
    document = {name: getattr(request, name) for name in _NAMES}
    document["message"], document["status"] = "", {}
    return document


def digest(request: Request) -> bytes:
    """What distinguishes one request from all others. Clients choose audit IDs, so it is more than that."""
    parts = (
        request.audit_id,
        str(request.received),
        str(request.time),
        request.user,
        request.verb,
        request.group,
        request.resource,
        request.subresource,
        request.namespace,
        request.name,
        str(request.code),
    )
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
