"""Formats events as lines, in the format and up to the size configured for a backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rewound.actors.names import Names
from rewound.gateway.audit.client_json import agent_text, source_addresses
from rewound.gateway.audit.event import EventFormat
from rewound.gateway.audit.policy import REQUEST_RECEIVED
from rewound.gateway.audit.record import Event, Pending


@dataclass(frozen=True, slots=True)
class Truncation:
    """Limits in bytes: larger events lose their objects, larger batches are split."""

    max_event: int
    max_batch: int


class Lines:
    """`at_once` is for the event loop, the rest for the thread or task that writes.

    `at_once` formats events without bodies, and records that represent their events, as lines with newlines, in a few
    microseconds each; it is None if lines have a size limit or another format.
    """

    def __init__(self, names: Names, truncation: Truncation | None = None, *, legacy: bool = False) -> None:
        self._json = EventFormat(names)
        self.at_once: Callable[[Sequence[Pending]], bytes] | None = None
        if truncation is None and not legacy:
            self.at_once = EventFormat(names).lines  # its own, because only one thread may use one
        self._truncation = truncation
        self._legacy = legacy

    def of(self, events: Sequence[Event]) -> list[bytes]:
        """The lines without newlines; fewer than events if some are too large even without their objects."""
        if self._legacy:
            return self._within_limit(legacy_line, events)
        if self._truncation is None:
            return [self._json.line(event) for event in events]
        return self._within_limit(self._shortened, events)

    def batches(self, lines: list[bytes]) -> Iterator[list[bytes]]:
        """The lines in batches within the limit."""
        if self._truncation is None:
            yield lines
            return
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if batch and size + len(line) > self._truncation.max_batch:
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch:
            yield batch

    def _shortened(self, event: Event) -> bytes:
        line = self._json.line(event)
        if self._truncation is not None and len(line) > self._truncation.max_event:
            return self._json.line(event, bodies=False)
        return line

    def _within_limit(self, make: Callable[[Event], bytes], events: Sequence[Event]) -> list[bytes]:
        lines = [make(event) for event in events]
        if self._truncation is None:
            return lines
        return [line for line in lines if len(line) <= self._truncation.max_event]


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
