"""Audit events in the exports of clouds: what `rewound import audit` reads besides the log of an API server.

    bytes -> values (JSON of any layout) -> events (one line of audit.k8s.io/v1 each)

    GKE    LogEntry of Cloud Logging with a protoPayload of type AuditLog: JSON lines of a sink, arrays of gcloud
    EKS    CloudWatch: `TIME {...}` lines of an export to S3, {"events": [{"message": "{...}"}]} of filter-log-events,
           {"logEvents": [...]} of a subscription, {"results": [[{"field": "@message", "value": "{...}"}]]} of Insights
    AKS    diagnostic settings: {"category": "kube-audit", "properties": {"log": "{...}"}}, alone or in
           {"records": [...]}; rows of the tables AKSAudit, AKSAuditAdmin and AzureDiagnostics

Each value says by itself what it is, so a file may mix them. What is none of these is yielded as it is: the reader of
audit events counts it and says why. No value but the elements of a list is held as a whole: files may have many GB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

from rewound.recording.record.requests import GROUPS, LONGEST_LINE

Document = dict[str, Any]

_CHUNK: Final = 1 << 20  # bytes
# Members with a list of entries.
_LISTS: Final = ("items", "events", "logEvents", "records", "Records", "results", "value", "entries")
_LIST: Final = re.compile(rb'"(' + "|".join(_LISTS).encode() + rb')"\s*:\s*\[')
_API_VERSION: Final = re.compile(rb'"apiVersion"\s*:\s*"([^"]{1,60})"')
_TIMESTAMPED: Final = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}Z\s+(?=\{)")
_STRUCTURE: Final = re.compile(rb'["{}\[\]]|\n(?=\{)')
_END_OF_STRING: Final = re.compile(rb'["\\]')
_SPACE: Final = re.compile(rb"[ \t\r\n,]*")
_USUAL: Final = b'{"kind":"Event'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TOO_BIG: Final = "skipped-too-big-size-object"  # what AKS has in place of a large object
# HTTP status codes of the codes of gRPC that Cloud Audit Logs have.
_STATUS: Final = {
    3: 400,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 409,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    16: 401,
}
_REASONS: Final = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
_DEEPEST: Final = 4  # entries within entries


def audit_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Audit events of a log or an export, one in a line; an empty line for what is too long."""
    for raw in _Values(stream):
        if raw.startswith(_USUAL) or not raw.startswith((b"{", b"[")):  # by far the most, and garbage
            yield raw
            continue
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            yield raw
            continue
        if isinstance(value, dict) and str(value.get("apiVersion")) in GROUPS:
            yield raw
        else:
            yield from _lines_in(value, raw)


class _Values:
    """The JSON values of a stream, in any layout: lines, elements of an array, or of a list in an object."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = bytearray()
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        self._read()
        if self._data.startswith(_BYTE_ORDER_MARK):
            del self._data[: len(_BYTE_ORDER_MARK)]
        while self._begin():
            if self._data[0] in b"[]":  # of an array, whose elements are values of their own
                del self._data[:1]
            else:
                yield from self._next()

    def _begin(self) -> bool:
        """Skip to the next value; return whether there is one."""
        while True:
            spaces = _SPACE.match(self._data)
            assert spaces is not None, "it matches nothing, too"
            del self._data[: spaces.end()]
            if self._data or not self._read():
                return bool(self._data)

    def _read(self) -> bool:
        if self._ended:
            return False
        chunk = self._stream.read(_CHUNK)
        self._ended = not chunk
        self._data += chunk
        return bool(chunk)

    def _line_end(self) -> int:
        """Where the first line ends; -1 if it is longer than LONGEST_LINE."""
        searched = 0
        while (end := self._data.find(b"\n", searched)) < 0:
            searched = len(self._data)
            if searched > LONGEST_LINE:
                return -1
            if not self._read():
                return len(self._data)
        return end

    def _next(self) -> Iterator[bytes]:
        if self._data[:1] != b"{":
            yield from self._text()
            return
        newline = self._data.find(b"\n", 0, _CHUNK)
        line = bytes(self._data[: max(newline, 0)]).rstrip()
        if newline > 0 and line.endswith(b"}") and (_is_usual(line) or _is_json(line)):
            del self._data[:newline]
            yield line
        else:
            yield from self._object()

    def _text(self) -> Iterator[bytes]:
        """A line that begins with no object: the time of CloudWatch stands before one."""
        end = self._line_end()
        if end < 0:
            del self._data[:LONGEST_LINE]
            while (end := self._data.find(b"\n")) < 0 and self._data:
                self._data.clear()
                self._read()
            del self._data[: max(end, 0)]
            yield b""
            return
        line = bytes(self._data[:end]).rstrip()
        found = _TIMESTAMPED.match(line)
        if found is None:
            del self._data[:end]
            yield line
        else:
            del self._data[: found.end()]

    def _object(self) -> Iterator[bytes]:
        """An object on one line or several; the elements of its list as soon as they are there."""
        at, depth, listed = 0, 0, False
        while True:
            found = self._structure(at)
            if found is None:
                end = self._line_end()
                yield b"" if end < 0 else bytes(self._data[: end or 1])
                del self._data[: end if end > 0 else 1]
                return
            at = found + 1
            byte = bytes(self._data[found : found + 1])
            if byte == b"\n":
                # Pretty-printed members are indented: this is the next line after one that was cut short.
                if depth == 1 and listed:
                    continue
                yield bytes(self._data[:found])
                del self._data[:found]
                return
            if byte == b"[" and depth == 1 and (key := self._key_of_list(found)):
                listed = True
                yield from self._elements(found, key)
                at = 0  # what follows is the rest of the object
            elif byte in (b"{", b"["):
                depth += 1
            elif byte in (b"}", b"]"):
                depth -= 1
                if depth <= 0:
                    if not listed:
                        yield bytes(self._data[:at])
                    del self._data[:at]
                    return

    def _key_of_list(self, at: int) -> bytes:
        """The name of the member whose list begins at a position, if it is one that has entries."""
        for found in _LIST.finditer(self._data, max(0, at - 40), at + 1):
            if found.end() == at + 1:
                return found[1]
        return b""

    def _elements(self, at: int, key: bytes) -> Iterator[bytes]:
        """The elements of the list at a position; what was before it, and they, leave the buffer."""
        found = _API_VERSION.search(self._data, 0, at)
        version = b"audit.k8s.io/v1" if found is None else found[1]
        del self._data[: at + 1]
        while self._begin():
            if self._data[:1] == b"]":
                del self._data[:1]
                return
            end = self._value_end()
            if end < 0:
                yield b""
                self._data.clear()
                return
            raw = bytes(self._data[:end])
            del self._data[:end]
            if key == b"items" and raw.startswith(b"{") and not _API_VERSION.search(raw, 0, 200):
                # Events of an EventList need not say what they are.
                raw = b'{"kind":"Event","apiVersion":"%b",%b' % (version, raw[1:])
            yield raw

    def _value_end(self) -> int:
        """Where the value at the beginning of the buffer ends; -1 if it does not, or is too long."""
        at, depth = 0, 0
        while (found := self._structure(at)) is not None:
            at = found + 1
            byte = bytes(self._data[found : found + 1])
            if byte in (b"{", b"["):
                depth += 1
            elif byte in (b"}", b"]"):
                depth -= 1
                if depth < 0:
                    return found or 1  # a number or a word before the end of the list
                if not depth:
                    return at
        return -1

    def _structure(self, at: int) -> int | None:
        """The next bracket, or line that begins with one, from a position; None if there is none within the bounds."""
        while True:
            found = _STRUCTURE.search(self._data, at)
            if found is None:
                at = max(at, len(self._data) - 1)
                if len(self._data) > LONGEST_LINE or not self._read():
                    return None
            elif self._data[found.start()] == 0x22:  # a string
                end = self._string_end(found.start() + 1)
                if end < 0:
                    return None
                at = end
            else:
                return found.start()

    def _string_end(self, at: int) -> int:
        while True:
            found = _END_OF_STRING.search(self._data, at)
            if found is not None and self._data[found.start()] == 0x22:
                return found.end()
            at = found.start() + 2 if found is not None else max(at, len(self._data))
            if at >= len(self._data) and (len(self._data) > LONGEST_LINE or not self._read()):
                return -1


def _is_usual(line: bytes) -> bool:
    """Whether a line is most likely one event as an API server writes it; this spares parsing it twice."""
    return line.startswith(_USUAL) and b"}{" not in line


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _lines_in(value: Any, raw: bytes, depth: int = 0) -> Iterator[bytes]:
    """The events of an entry, or what it is instead."""
    if isinstance(value, str):
        yield from _lines_in_text(value, raw, depth)
    elif isinstance(value, list) and depth < _DEEPEST:
        # A row of CloudWatch Logs Insights.
        fields = [one for one in value if isinstance(one, dict) and isinstance(one.get("field"), str)]
        for one in [{cell["field"]: cell.get("value") for cell in fields}] if fields else value:
            yield from _lines_in(one, raw, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        yield from _lines_of(value, raw, depth)
    else:
        yield raw


def _lines_of(value: Document, raw: bytes, depth: int) -> Iterator[bytes]:
    payload, properties = value.get("protoPayload"), value.get("properties")
    listed = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
    if str(value.get("apiVersion")) in GROUPS:
        yield orjson.dumps(value)
    elif isinstance(payload, dict):
        yield _event_of_gke(value, payload) or raw
    elif isinstance(properties, dict) and "log" in properties:
        yield from _lines_in(properties["log"], raw, depth + 1)
    elif "AuditId" in value and "RequestUri" in value:
        yield _event_of_table(value)
    elif listed is not None:
        for one in listed:
            yield from _lines_in(one, raw, depth + 1)
    else:
        texts = (value.get(name) for name in ("message", "@message", "log_s", "log", "jsonPayload"))
        found = next((one for one in texts if one), None)
        if found is None:
            yield orjson.dumps(value) if depth else raw
        else:
            yield from _lines_in(found, raw, depth + 1)


def _lines_in_text(text: str, raw: bytes, depth: int) -> Iterator[bytes]:
    """The event in a message. The other logs of a control plane have lines that are no JSON."""
    if depth >= _DEEPEST or not text.startswith("{"):
        yield text.encode("utf-8", "replace") or raw
        return
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        yield text.encode("utf-8", "replace")
        return
    yield from _lines_of(found, raw, depth + 1)


# AKS: rows of Log Analytics.


def _event_of_table(row: Document) -> bytes:
    """An event of a row of AKSAudit or AKSAuditAdmin, whose columns are its fields, objects as such or as text."""
    event: Document = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": row.get("Level"),
        "auditID": row.get("AuditId"),
        "stage": row.get("Stage"),
        "requestURI": row.get("RequestUri"),
        "verb": row.get("Verb"),
        "user": _parsed(row.get("User")),
        "sourceIPs": _parsed(row.get("SourceIps")),
        "userAgent": row.get("UserAgent"),
        "objectRef": _parsed(row.get("ObjectRef")),
        "responseStatus": _parsed(row.get("ResponseStatus")),
        "requestObject": _parsed(row.get("RequestObject")),
        "responseObject": _parsed(row.get("ResponseObject")),
        "requestReceivedTimestamp": row.get("RequestReceivedTime"),
        "stageTimestamp": row.get("StageReceivedTime") or row.get("TimeGenerated"),
    }
    return orjson.dumps({name: one for name, one in event.items() if one not in (None, "", _TOO_BIG)})


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


# GKE: entries of Cloud Logging.


def _event_of_gke(entry: Document, payload: Document) -> bytes | None:
    """The event of an entry; None if it is not of the API of a cluster, but of Google's."""
    method, resource = str(payload.get("methodName", "")), str(payload.get("resourceName", ""))
    if not method.startswith("io.k8s.") and payload.get("serviceName") != "k8s.io":
        return None
    verb = method.rpartition(".")[2]
    reference = _reference_of(resource)
    metadata, status = _part(payload, "requestMetadata"), _part(payload, "status")
    response = _object_of(payload.get("response"), reference)
    request = _object_of(payload.get("request"), reference)
    if reference is not None and verb == "create" and "name" not in reference:
        known = [
            one["metadata"] for one in (response, request) if one and isinstance(one.get("metadata"), dict)
        ]
        reference["name"] = next((one["name"] for one in known if one.get("name")), "")
    operation = _part(entry, "operation")
    begins = operation.get("first") and not operation.get("last")
    event: Document = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse" if response else "Request" if request else "Metadata",
        "auditID": entry.get("insertId") or operation.get("id"),
        # A long request has an entry for its beginning, too.
        "stage": "ResponseStarted" if begins and verb in ("watch", "connect") else "ResponseComplete",
        "requestURI": _uri_of(reference, resource),
        "verb": verb,
        "user": {"username": _part(payload, "authenticationInfo").get("principalEmail", "")},
        "sourceIPs": [metadata["callerIp"]] if metadata.get("callerIp") else [],
        "userAgent": metadata.get("callerSuppliedUserAgent", ""),
        "objectRef": reference,
        "responseStatus": _status_of(status, response, verb),
        "requestObject": request,
        "responseObject": response,
        "requestReceivedTimestamp": entry.get("timestamp"),
        "stageTimestamp": entry.get("timestamp"),
    }
    return orjson.dumps({name: one for name, one in event.items() if one is not None})


def _part(entry: Document, name: str) -> Document:
    """A member that should be an object; whoever can write to a log can write anything else there."""
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _reference_of(resource: str) -> Document | None:
    """The objectRef of a name such as apps/v1/namespaces/shop/deployments/web/scale."""
    parts = resource.split("/")
    if len(parts) < 3:
        return None
    group, version, *path = parts
    namespace = ""
    if path[0] == "namespaces" and len(path) > 2 and path[2] not in ("status", "finalize"):
        namespace, path = path[1], path[2:]
    reference: Document = {"resource": path[0], "apiVersion": version}
    if group != "core":
        reference["apiGroup"] = group
    if namespace or path[0] == "namespaces":
        reference["namespace"] = namespace or (path[1] if len(path) > 1 else "")
    for name, value in zip(("name", "subresource"), path[1:3], strict=False):
        reference[name] = value
    return reference


def _uri_of(reference: Document | None, resource: str) -> str:
    if reference is None:
        return "/" + resource
    group, version, path = resource.split("/", 2)
    return f"/api/{version}/{path}" if group == "core" else f"/apis/{group}/{version}/{path}"


def _object_of(given: Any, reference: Document | None) -> Document | None:
    """An object of an entry, which has `@type` instead of, or besides, its kind."""
    if not isinstance(given, dict):
        return None
    found = {name: one for name, one in given.items() if name != "@type"}
    kind = str(given.get("@type", "")).rpartition(".")[2]
    if (
        kind
        and kind not in ("Patch", "DeleteOptions", "Struct")
        and reference is not None
        and "kind" not in found
    ):
        group, version = reference.get("apiGroup"), reference["apiVersion"]
        found = {"kind": kind, "apiVersion": f"{group}/{version}" if group else version, **found}
    return found


def _status_of(status: Document, response: Document | None, verb: str) -> Document:
    """The responseStatus: an error has a code of gRPC, and often a Status of Kubernetes as its response."""
    if response is not None and response.get("kind") == "Status" and isinstance(response.get("code"), int):
        return response
    code = status.get("code", 0)
    if not code:
        says = response if response is not None and response.get("kind") == "Status" else {}
        return {**says, "code": 201 if verb == "create" else 200}
    if not isinstance(code, int):
        return {"code": code}  # which is refused with its reason
    number = _STATUS.get(code, 500) if code < 100 else code
    return {"code": number, "message": str(status.get("message", "")), "reason": _REASONS.get(number, "")}
