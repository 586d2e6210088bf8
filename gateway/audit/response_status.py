"""The responseStatus of an audit event: the code, and what a response of kind Status says."""

from __future__ import annotations

from json.encoder import encode_basestring as quote
from typing import Any, Final

from actors.go_json import dumps
from gateway.audit.documents import parsed
from gateway.audit.policy import PANIC
from gateway.audit.record import AuditRecord

_STATUS_FIELDS = ("status", "message", "reason", "details")
CLOSED_EARLY: Final = '"status":"Success","message":"Connection closed early","code":200'


def response_status(record: AuditRecord, stage: str, status: int) -> bytes:
    if not status:
        return f',"responseStatus":{{"metadata":{{}},{CLOSED_EARLY}}}'.encode()
    if stage is PANIC:
        shown = f'"status":"Failure","message":{quote(record.message)},"reason":"InternalError",'
        return f',"responseStatus":{{"metadata":{{}},{shown}"code":{status}}}'.encode()
    body = record.response_body
    if body is not None and b'"Status"' in body[:128]:
        return _copied_status(body, status, record.message)
    if record.message:
        shown = f'"message":{quote(record.message)},'
        return f',"responseStatus":{{"metadata":{{}},{shown}"code":{status}}}'.encode()
    return b',"responseStatus":{"metadata":{},"code":%d}' % status


def _copied_status(body: bytes, code: int, message: str) -> bytes:
    """What a response of kind Status says; an audit event shows it at every level."""
    found = parsed(body)
    shown: dict[str, Any] = {"metadata": {}}
    if isinstance(found, dict) and found.get("kind") == "Status":
        shown |= {field: found[field] for field in _STATUS_FIELDS if found.get(field) not in ("", None)}
    if message:
        shown["message"] = message
    return b',"responseStatus":' + dumps({**shown, "code": code})
