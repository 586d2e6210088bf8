"""Admission: plugins that may change a write, then what the server fills in, then plugins that may refuse it.

The steps that concern one (resource, operation, subresource) are compiled into a `Chain` once, in the order in which
the plugins are listed; a write that concerns no plugin has an empty chain and pays for nothing. The actor calls
`admit` before it prepares an object and `validate` after the object was found valid. Either returns early at a step
that is asynchronous, with the place of that step, and is called again to go on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from actors.admission.plugin import AsyncPlugin, Plugin, Rule
from actors.admission.request import AdmissionRequest
from actors.kinds.declaration.definition import Definition
from actors.messages import Object

Change = Callable[[AdmissionRequest], Object | None]
Check = Callable[[AdmissionRequest], None]
Step = TypeVar("Step", Change, Check)


@dataclass(frozen=True, slots=True)
class Chain:
    changes: tuple[Change | AsyncPlugin, ...] = ()  # mutations, then completions
    checks: tuple[Check | AsyncPlugin, ...] = ()
    asynchronous: bool = False  # some step is
    repeated: tuple[Change, ...] = ()  # what may refuse a write also when it comes back from such a step

    def __bool__(self) -> bool:
        return bool(self.changes or self.checks)

    def admit(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """Change the object; the place of an asynchronous step that must come next, or None at the end."""
        for place in range(first, len(self.changes)):
            change = self.changes[place]
            if isinstance(change, AsyncPlugin):
                return place
            changed = change(request)
            if changed is not None:
                request.object = changed
        return None

    def validate(self, request: AdmissionRequest, first: int = 0) -> int | None:
        """As `admit`, of the steps that only refuse."""
        for place in range(first, len(self.checks)):
            check = self.checks[place]
            if isinstance(check, AsyncPlugin):
                return place
            check(request)
        return None


EMPTY = Chain()


class Admission:
    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._plugins = tuple(plugins)

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        """Compiled anew with every call: callers keep it as long as they keep the definition."""

        def concerned(rules: tuple[Rule, ...]) -> bool:
            return any(rule.covers(definition, operation, subresource) for rule in rules)

        mutations = [_step(one, one.mutate) for one in self._plugins if concerned(one.mutates)]
        completions = [one.complete for one in self._plugins if concerned(one.completes)]
        checks = [_step(one, one.validate) for one in self._plugins if concerned(one.validates)]
        asynchronous = any(isinstance(one, AsyncPlugin) for one in (*mutations, *checks))
        repeated = [one.mutate for one in self._plugins if one.repeats and concerned(one.mutates)]
        return Chain((*mutations, *completions), tuple(checks), asynchronous, tuple(repeated))


def _step(plugin: Plugin, step: Step) -> Step | AsyncPlugin:
    return plugin if isinstance(plugin, AsyncPlugin) else step
