"""What rules look at: an event of the journal with its object, or a request that was refused.

The object is parsed when the first rule asks for it, and only once: most events concern no rule that does. Rules never
see the values of Secrets, because alerts leave the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import orjson

from rewound.actors.rewind.difference import MANAGED_FIELDS, RESOURCE_VERSION, difference
from rewound.journal.records import Event
from rewound.recording.query.entries import Kind, masked, masked_pair

Document = dict[str, Any]
Contents = Callable[[int], bytes | None]  # the object of an event, by its version

MOST_CHANGED = 100  # paths of `event.changed`


class Occurrence:
    def __init__(
        self,
        kind: Kind,
        event: Event,
        contents: Contents,
        *,
        refused: Document | None = None,
        exists: bool = False,
    ) -> None:
        """`exists`: nothing happened; the object was there before the first event, and the event is its last one."""
        self.kind, self.event, self.contents = kind, event, contents
        self.refused, self.exists = refused, exists

    @property
    def time(self) -> int:
        return self.event.time

    @property
    def author(self) -> tuple[str, str]:
        return self.event.user, self.event.manager

    @property
    def object_key(self) -> tuple[str, str, str]:
        return self.kind.type_name, self.event.namespace, self.event.name

    @cached_property
    def before(self) -> bytes | None:
        """The stored object before the event; None if there was none, or retention removed it."""
        return self.contents(self.event.previous) if self.event.previous else None

    @cached_property
    def stored(self) -> Document:
        """The stored object, without kind; empty for a refused request and where the content is not known."""
        return _parsed(self.event.body)

    @cached_property
    def stored_before(self) -> Document | None:
        return None if self.before is None else _parsed(self.before)

    @cached_property
    def object(self) -> Document | None:
        if self.refused is not None or not self.event.body:
            return None
        return self._typed(_parsed(masked(self.event.body)) if self.kind.is_secret else self.stored)

    @cached_property
    def old_object(self) -> Document | None:
        if self.before is None:
            return None
        return self._typed(_parsed(masked(self.before)) if self.kind.is_secret else _parsed(self.before))

    @cached_property
    def changed(self) -> list[str]:
        """The paths of the fields that an update changed."""
        if self.before is None or not self.event.body:
            return []
        one, other = _parsed(self.before), _parsed(self.event.body)
        if self.kind.is_secret:
            one, other = masked_pair(one, other)
        ignored = RESOURCE_VERSION | {MANAGED_FIELDS}
        return [change.path for change in difference(one, other, ignored, most=MOST_CHANGED)]

    @property
    def change(self) -> str:
        if self.refused is not None:
            return "refused"
        if self.event.removed:
            return "deleted"
        return "updated" if self.event.previous else "created"

    def _typed(self, stored: Document) -> Document:
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **stored}


def _parsed(body: bytes) -> Document:
    """An object; empty if it is none: a recording may have anything."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
