"""Which events a command selects, and the index of the log that finds them fastest.

One object has an index, one type has an index; every other selection reads all events in the range.
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
# What the journal records as the verb of an event.
VERBS = ("create", "update", "patch", "apply", "delete", "deletecollection")


@dataclass(frozen=True, slots=True)
class Selection:
    """All conditions must hold; None: no condition. Texts may have wildcards."""

    kinds: tuple[Kind, ...] = ()
    namespace: str | None = None
    name: str | None = None
    user: str | None = None
    verb: str | None = None

    def index(self, view: View) -> Index:
        type_ids = self._type_ids(view)
        if len(type_ids) != 1:
            return history.whole_log(view)
        (type_id,) = type_ids
        if self.namespace is not None and self.name is not None and not _WILD & {*self.namespace, *self.name}:
            key = keys.find_object(type_id, self.namespace, self.name)
            if key is not None:
                return history.of_object(view, key)
        return history.of_type(view, type_id)

    def matcher(self, view: View) -> Callable[[Event], bool]:
        type_ids = self._type_ids(view)
        conditions = [
            (attribute, wanted)
            for attribute in ("namespace", "name", "user", "verb")
            if (wanted := getattr(self, attribute)) is not None
        ]

        def matches(event: Event) -> bool:
            if type_ids and event.type_id not in type_ids:
                return False
            return all(fnmatchcase(getattr(event, attribute), wanted) for attribute, wanted in conditions)

        return matches

    @property
    def one_namespace(self) -> str | None:
        """The namespace of all selected objects, if it is given without wildcards."""
        return None if self.namespace is None or _WILD & {*self.namespace} else self.namespace

    @property
    def selects_names(self) -> bool:
        """Whether namespace or name is given."""
        return self.namespace is not None or self.name is not None

    def matches_names(self, namespace: str, name: str) -> bool:
        """Whether namespace and name match."""
        return (self.namespace is None or fnmatchcase(namespace, self.namespace)) and (
            self.name is None or fnmatchcase(name, self.name)
        )

    def _type_ids(self, view: View) -> frozenset[int]:
        # Read each time: a live server may register a type while this command runs.
        types = view.types()
        return frozenset(types.get(kind.type_name, 0) for kind in self.kinds)


def check_verb(verb: str | None) -> None:
    """UsageError for a verb that no event has."""
    if verb is not None and not any(fnmatchcase(known, verb) for known in VERBS):
        raise UsageError(f"--verb: {verb!r} is no verb of the journal; there are {', '.join(VERBS)}")


def parse_selection(kinds: Kinds, options: Options) -> Selection:
    """The selection of the flags that several commands share."""
    chosen = tuple(dict.fromkeys(kinds.find(text) for text in options.kind))
    namespace: str | None = options.namespace
    if chosen and all(kind.namespaced is False for kind in chosen):
        if namespace:
            raise UsageError(f"--namespace: {chosen[0].type_name} are cluster-scoped; leave it out")
        namespace = ""
    return Selection(chosen, namespace, options.name)
