"""The format `legacy` of --audit-log-format: one line of text per event."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from gateway.audit.client_json import agent_text
from gateway.audit.policy import REQUEST_RECEIVED
from gateway.audit.record import Event
from gateway.audit.source_addresses import source_addresses


def legacy_line(event: Event) -> bytes:
    record, stage, _, status = event
    attributes = record.attributes_
    received = stage is REQUEST_RECEIVED
    user, impersonated = attributes.user, None if received else record.impersonated
    addresses = source_addresses(record.client.forwarded_for, record.client.real_ip, record.address)
    uri = f"{record.path}?{record.query}" if record.query else record.path
    groups = _quoted(user.groups) if user.name and user.groups else "<none>"
    as_user = impersonated.name if impersonated is not None else "<self>"
    as_groups = _quoted(impersonated.groups) if impersonated is not None else "<lookup>"
    fields = (
        f"id={_quote(record.audit_id.decode(errors='replace'))}",
        f'stage="{stage}"',
        f"ip={_quote(addresses[0] if addresses else '<unknown>')}",
        f"method={_quote(attributes.verb)}",
        f"user={_quote(user.name or '<none>')}",
        f"groups={groups}",
        f"as={_quote(as_user)}",
        f"asgroups={as_groups}",
        f"user-agent={_quote(agent_text(record.client.agent))}",
        f"namespace={_quote(attributes.namespace or '<none>')}",
        f"uri={_quote(uri)}",
        f'response="{"<deferred>" if received else status or 200}"',
    )
    return f"{_time(record.received_at // 1000)} AUDIT: {' '.join(fields)}".encode(errors="replace")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _quoted(texts: tuple[str, ...]) -> str:
    return ",".join(map(_quote, texts))


def _time(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"
