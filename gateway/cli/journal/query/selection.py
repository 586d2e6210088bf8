"""Which events a command is about, and the shortest way through the log to find them.

One object goes by its own index, one type by its; everything else looks at every event in the range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gateway.cli.journal.query.failure import UsageError
from gateway.cli.journal.query.flags import Options
from gateway.cli.journal.query.kinds import Kind, Kinds
from journal import history, keys
from journal.history import Index
from journal.records import Event
from journal.view import View

_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Selection:
    """All conditions must hold; None is none. Texts may have wildcards."""

    kinds: tuple[Kind, ...] = ()
    namespace: str | None = None
    name: str | None = None
    user: str | None = None
    verb: str | None = None

    def way(self, view: View) -> Index:
        numbers = self._numbers(view)
        if len(numbers) != 1:
            return history.whole_log(view)
        (number,) = numbers
        if self.namespace is not None and self.name is not None and not _WILD & {*self.namespace, *self.name}:
            key = keys.find_object(number, self.namespace, self.name)
            if key is not None:
                return history.of_object(view, key)
        return history.of_type(view, number)

    def test(self, view: View) -> Callable[[Event], bool]:
        numbers = self._numbers(view)
        conditions = [
            (attribute, wanted)
            for attribute in ("namespace", "name", "user", "verb")
            if (wanted := getattr(self, attribute)) is not None
        ]

        def matches(event: Event) -> bool:
            if numbers and event.type_id not in numbers:
                return False
            return all(fnmatchcase(getattr(event, attribute), wanted) for attribute, wanted in conditions)

        return matches

    @property
    def one_namespace(self) -> str | None:
        """The namespace that all must be in, where that is a plain name."""
        return None if self.namespace is None or _WILD & {*self.namespace} else self.namespace

    @property
    def names_some(self) -> bool:
        """Whether objects are chosen by name at all."""
        return self.namespace is not None or self.name is not None

    def names(self, namespace: str, name: str) -> bool:
        """Whether an object is meant, by its names alone."""
        return (self.namespace is None or fnmatchcase(namespace, self.namespace)) and (
            self.name is None or fnmatchcase(name, self.name)
        )

    def _numbers(self, view: View) -> frozenset[int]:
        # Read each time: a live server may register a type while this command runs.
        types = view.types()
        return frozenset(types.get(kind.type_name, 0) for kind in self.kinds)


def selected(kinds: Kinds, options: Options) -> Selection:
    """From the flags that all commands with a selection share."""
    chosen = tuple(dict.fromkeys(kinds.named(text) for text in options.kind))
    namespace: str | None = options.namespace
    if chosen and all(kind.namespaced is False for kind in chosen):
        if namespace:
            raise UsageError(f"--namespace: {chosen[0].type_name} are in no namespace; leave it out")
        namespace = ""
    return Selection(chosen, namespace, options.name)
