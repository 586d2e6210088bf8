"""Invariants: conditions on every version of an object, or on the state of all objects at every version.

    def never_shrinks(old, new): ...            every version; `old` is None for a new object, `new` for a removed one
    def few_pods(state): ...                    the state at every version: `state("pods")` lists objects
    "old == null || new == null || ..."         CEL over `old` and `new`, which are null likewise
    Invariant(never_shrinks, kind="Pod")        only for objects of this kind (or resource)

A function breaks its invariant when it returns False or raises AssertionError; an expression when it is not true, or
cannot be evaluated. The versions are those of the journal, so that none is missed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rewound.actors.names import NAMES
from rewound.actors.runtime.budget import StepBudget
from rewound.gateway.store import Store
from rewound.journal.records import Event
from rewound.recording.replay.until import MOST_PAUSES, BadExpression, cel_value, compile_expression

Check = Callable[..., Any]
Key = tuple[str, str, str]  # resource, namespace, name


class BadInvariant(ValueError):
    """An invariant cannot be used; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant: a function or an expression in CEL, for objects of a kind, or for all."""

    check: Check | str
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.name or (
            self.check if isinstance(self.check, str) else getattr(self.check, "__name__", repr(self.check))
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object, as it is in the journal."""

    number: int
    verb: str
    user: str
    kind: str
    resource: str
    namespace: str
    name: str
    old: Any  # None for a new object
    new: Any  # None for a removed one

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"version {self.number}, the {self.verb} of {self.resource} {where} by {self.user}"


class State:
    """All objects at a version."""

    def __init__(self) -> None:
        self._objects: dict[Key, Any] = {}
        self._first: dict[Key, Any] = {}
        self._kinds: dict[str, str] = {}  # resource: kind

    def __call__(self, kind: str, namespace: str | None = None) -> list[Any]:
        """The objects of a resource (`pods`, `deployments.apps`) or kind, ordered by namespace and name."""
        return [
            found
            for (resource, own, _), found in sorted(self._objects.items(), key=lambda one: one[0])
            if _is_kind(kind, resource, self._kinds[resource]) and namespace in (None, own)
        ]

    def get(self, resource: str, namespace: str, name: str) -> Any:
        return self._objects.get((resource, namespace, name))

    def put(self, version: Version) -> None:
        key = (version.resource, version.namespace, version.name)
        self._kinds[version.resource] = version.kind
        if version.new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = version.new

    def begin(self) -> None:
        """Make the current objects those of the start, for `changed`."""
        self._first = dict(self._objects)

    def changed(self) -> Iterator[tuple[Key, Any, Any]]:
        """The objects written since the start, with their content then and now; None if one did not exist."""
        for key in sorted(self._objects.keys() | self._first.keys()):
            first, found = self._first.get(key), self._objects.get(key)
            if found is not first:
                yield key, first, found


class Broken(AssertionError):
    """An invariant does not hold."""


class Checker:
    """Follows the journal of a server and checks every version."""

    def __init__(
        self, store: Store, invariants: Sequence[Compiled], follow: Callable[[Version], None]
    ) -> None:
        """`follow` is called with every version, including those of the start."""
        self._store = store
        self._invariants = invariants
        self._follow = follow
        self.state = State()
        self.head = 0
        for version in self._new_versions():
            self._put(version)
        self.state.begin()
        self.start = self.head

    def check_new(self) -> None:
        """Check all versions since the last call. Raises Broken if an invariant does not hold."""
        for version in self._new_versions():
            self._put(version)
            for one in self._invariants:
                one.check(version, self.state)

    def _put(self, version: Version) -> None:
        self.state.put(version)
        self._follow(version)

    def _new_versions(self) -> Iterator[Version]:
        if self._store.feed.head == self.head:
            return
        with self._store.journal.read() as view:
            events = list(view.events(self.head))
        names = {number: name for name, number in self._store.journal.types().items()}
        for event in events:
            self.head = event.offset
            yield self._version(event, names[event.type_id])

    def _version(self, event: Event, resource: str) -> Version:
        old = self.state.get(resource, event.namespace, event.name) if event.previous else None
        stored = self._store.registry.current.stored_type(resource)
        kind, api_version = ("", "")
        if stored is not None:
            kind, api_version = stored.storage.kind, stored.storage.api_version
        new = None
        if not event.removed:
            new = {"kind": kind, "apiVersion": api_version, **orjson.loads(event.body)}
        return Version(
            event.offset, event.verb, event.user, kind, resource, event.namespace, event.name, old, new
        )


class Compiled:
    """An invariant that is ready to be checked."""

    def __init__(self, invariant: Invariant, dialect: str) -> None:
        """Raises BadInvariant if the invariant cannot be used."""
        self._invariant = invariant
        check = invariant.check
        self._of_state = False
        if isinstance(check, str):
            self._check: Check = _expression(check, dialect)
        elif callable(check):
            self._check = check
            self._of_state = _parameters(check, str(invariant)) == 1
        else:
            raise BadInvariant(f"invariants: {check!r} is neither a function nor an expression in CEL")

    def check(self, version: Version, state: State) -> None:
        """Raises Broken if the invariant does not hold."""
        wanted = self._invariant.kind
        if wanted and not _is_kind(wanted, version.resource, version.kind):
            return
        try:
            result = self._check(state) if self._of_state else self._check(version.old, version.new)
        except AssertionError as error:
            raise Broken(
                f"{version}\nbreaks the invariant {self._invariant}: {_first_line(error)}"
            ) from error
        if isinstance(result, Exception):
            raise Broken(f"{version}\nbreaks the invariant {self._invariant}: {result}")
        if result is False:
            raise Broken(f"{version}\nbreaks the invariant {self._invariant}")


def compiled(invariants: Sequence[Invariant | Check | str], dialect: str) -> list[Compiled]:
    """Compile invariants. Raises BadInvariant if one cannot be used."""
    return [Compiled(one if isinstance(one, Invariant) else Invariant(one), dialect) for one in invariants]


def _is_kind(wanted: str, resource: str, kind: str) -> bool:
    return wanted in (resource, kind, resource.partition(".")[0])


def _parameters(check: Check, name: str) -> int:
    count = sum(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        for one in inspect.signature(check).parameters.values()
    )
    if count not in (1, 2):
        raise BadInvariant(f"invariants: {name} has {count} parameters; write (old, new) or (state)")
    return count


def _expression(text: str, dialect: str) -> Check:
    try:
        program = compile_expression(text, NAMES[dialect], ("old", "new"))
    except BadExpression as error:
        raise BadInvariant(f"invariants: {error}") from error

    def holds(old: Any, new: Any) -> Any:
        result = program.evaluate((cel_value(old), cel_value(new)), StepBudget(MOST_PAUSES)).result
        return result if isinstance(result, Exception) else result is True

    return holds


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
