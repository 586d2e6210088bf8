"""Admission: plugins that may change a write, then plugins that may refuse it, in a fixed order.

The actor calls `mutate` before a change is prepared and `validate` after it was found valid. Between them comes
`complete`: what the server itself gives an object (addresses of services), when nobody changes it any more.
Plugins are pure lookups over what the server already knows; those that must ask somebody else (webhooks) get a
task of their own in their own issue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actors.kinds.declaration.definition import Definition
from actors.messages import Object, Stamp


@dataclass(slots=True)
class Review:
    """One write as admission sees it."""

    operation: str  # CREATE, UPDATE or DELETE
    definition: Definition
    namespace: str
    name: str
    subresource: str
    object: Object | None  # may be changed by mutate
    old: Object | None
    user: str
    dry_run: bool
    stamp: Stamp | None = None
    # Told once whether the write became durable: by plugins that keep something for it until then.
    waiting: list[Callable[[bool], None]] = field(default_factory=list)

    def settle(self, durable: bool) -> None:
        for told in self.waiting:
            told(durable)
        self.waiting.clear()


class Plugin(Protocol):
    def mutate(self, review: Review) -> None: ...

    def validate(self, review: Review) -> None: ...


class Completion(Protocol):
    def complete(self, review: Review) -> None: ...


class Admission:
    def __init__(self, plugins: Sequence[Plugin] = (), completions: Sequence[Completion] = ()) -> None:
        self._plugins = tuple(plugins)
        self._completions = tuple(completions)

    def mutate(self, review: Review) -> None:
        for plugin in self._plugins:
            plugin.mutate(review)

    def complete(self, review: Review) -> None:
        for completion in self._completions:
            completion.complete(review)

    def validate(self, review: Review) -> None:
        for plugin in self._plugins:
            plugin.validate(review)
