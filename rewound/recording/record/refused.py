"""Requests that the recorded server refused: a file of JSON lines beside the journal, oldest first.

    {"time": 1700000000000000, "user": "alice", "verb": "delete", "type": "pods", "namespace": "shop", "name": "web",
     "code": 403, "reason": "Forbidden", "message": "...", "userAgent": "kubectl/v1.25.0", "sourceIPs": ["10.0.0.7"]}

A refused request changes nothing, so it has no version, and an event would give its object a version that the recorded
server does not have. `rewind.page.refused` reads the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from rewound.actors.golang.json import unescaped
from rewound.recording.record.requests import Request
from rewound.rewind.page.refused import FILE, LONGEST_LINE, may_quote_secret

Document = dict[str, Any]

LARGEST: Final = 64 << 20  # bytes; what is refused after that is only counted


class RefusedRequests:
    """Appends to the file of a folder."""

    def __init__(self, folder: Path, *, with_secrets: bool = False) -> None:
        """Without `with_secrets`, leave out messages that may quote values of Secrets or tokens."""
        self._path = folder / FILE
        self._with_secrets = with_secrets
        self._stream: BinaryIO | None = None
        self._size = 0
        self.left_out = 0

    def add(self, request: Request) -> None:
        document = document_of(request)
        quotes = may_quote_secret(request.group, request.resource, request.subresource, request.code)
        if quotes and not self._with_secrets:
            document["message"] = ""
        line = unescaped(document) + b"\n"
        if self._stream is None:
            self._stream = self._path.open("ab")
            self._path.chmod(0o600)
            self._size = self._stream.tell()
        if self._size + len(line) > LARGEST or len(line) > LONGEST_LINE:
            self.left_out += 1
            return
        self._stream.write(line)
        self._size += len(line)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def document_of(request: Request) -> Document:
    resource = f"{request.resource}.{request.group}" if request.group else request.resource
    return {
        "time": request.time,
        "user": request.user,
        "verb": request.verb,
        "type": resource,
        **({"subresource": request.subresource} if request.subresource else {}),
        "namespace": request.namespace,
        "name": request.name,
        "code": request.code,
        "reason": request.reason,
        "message": request.message,
        "userAgent": request.agent,
        "manager": request.manager,
        "sourceIPs": list(request.addresses),
        "auditID": request.audit_id,
    }
