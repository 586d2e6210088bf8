"""Admission: plugins that may change a write, then what the server fills in, then plugins that may refuse it.

The steps that concern one (resource, operation, subresource) are compiled into a `Chain` once, in the order in which
the plugins are listed; a write that concerns no plugin has an empty chain and pays for nothing. The actor calls
`admit` before it prepares an object and `validate` after the object was found valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.admission.plugin import Plugin, Rule
from actors.admission.request import AdmissionRequest
from actors.kinds.declaration.definition import Definition
from actors.messages import Object

Change = Callable[[AdmissionRequest], Object | None]
Check = Callable[[AdmissionRequest], None]


@dataclass(frozen=True, slots=True)
class Chain:
    changes: tuple[Change, ...] = ()  # mutations, then completions
    checks: tuple[Check, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.checks)

    def admit(self, request: AdmissionRequest) -> None:
        for change in self.changes:
            changed = change(request)
            if changed is not None:
                request.object = changed

    def validate(self, request: AdmissionRequest) -> None:
        for check in self.checks:
            check(request)


EMPTY = Chain()


class Admission:
    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._plugins = tuple(plugins)

    def chain(self, definition: Definition, operation: str, subresource: str) -> Chain:
        """Compiled anew with every call: callers keep it as long as they keep the definition."""

        def concerned(rules: tuple[Rule, ...]) -> bool:
            return any(rule.covers(definition, operation, subresource) for rule in rules)

        mutations = [one.mutate for one in self._plugins if concerned(one.mutates)]
        completions = [one.complete for one in self._plugins if concerned(one.completes)]
        checks = [one.validate for one in self._plugins if concerned(one.validates)]
        return Chain((*mutations, *completions), tuple(checks))
