"""An index of selectors: finds those that an object may match, without trying all of them.

Each selector is stored under one of its terms: an object that matches it has that label or field, with one of the
term's values. `find` looks up the labels and fields of an object, so its cost depends on the object and on the
selectors found, not on how many there are. Selectors without such a term (`!=`, `notin`, `!key`, a field that must be
empty) are always found.

    index.add(a, "app=web,env=prod")       stored under app=web
    index.add(b, "app=web,env=test")       stored under env=test, which has fewer selectors
    index.find(app=web, env=prod)          {a}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from rewound.actors.selectors.facts import LateField, stored_text, unpack_selectable
from rewound.actors.selectors.fields import FieldSelector
from rewound.actors.selectors.labels import ABSENT, IN, NOT_IN, LabelSelector

T = TypeVar("T")
Match = Callable[[bytes, bytes], bool]

# A term with more values is stored under its key alone, so that a long list does not fill the index.
MAX_VALUES = 64
# Terms of one selector that `add` chooses from: choosing costs time and memory, and one good term is enough.
MAX_TERMS = 8

# The owner of the index has already looked up this field, as part of the scope.
_NAME = "metadata.name"


class Term(NamedTuple):
    """A requirement that only objects with this label or field can meet."""

    field: bool  # otherwise a label
    key: str
    values: tuple[str, ...]  # the value must be one of these; (): any value

    @property
    def cost(self) -> int:
        return len(self.values) or MAX_VALUES + 1


class Criteria(NamedTuple):
    """What the index needs to know about a selector. `implied`: every object that has its only term matches."""

    terms: tuple[Term, ...] = ()
    implied: bool = False
    late: tuple[LateField, ...] = ()  # the caller of `find` completes facts by these


NO_CRITERIA = Criteria()


def criteria(labels: LabelSelector | None, fields: FieldSelector | None) -> Criteria:
    """Return the terms of two selectors, fewest values first. The caller handles a required name."""
    terms: list[Term] = []
    others = False
    for label in labels.requirements if labels is not None else ():
        if label.operator in (NOT_IN, ABSENT):
            others = True
            continue
        values = label.values if label.operator == IN and len(label.values) <= MAX_VALUES else ()
        others = others or bool(label.values and not values)
        terms.append(Term(False, label.key, values))
    for field in fields.requirements if fields is not None else ():
        if field.operator != "=" or not field.value:
            others = True
        elif field.field != _NAME:
            terms.append(Term(True, field.field, (stored_text(field.value),)))
    names = {one.value for one in fields.requirements if one.field == _NAME} if fields is not None else ()
    implied = not others and len(terms) <= 1 and len(names) <= 1
    late = fields.late if fields is not None else ()
    return Criteria(tuple(sorted(terms, key=lambda term: term.cost)[:MAX_TERMS]), implied, late)


Found = dict[T, Match | None]  # with its matcher; None: every object matches
_Values = dict[str | None, Found[T]]  # None: any value


class SelectorIndex(Generic[T]):
    """`T` is the owner of a selector: a watch group."""

    __slots__ = ("_always", "_fields", "_labels", "_terms")

    def __init__(self) -> None:
        self._always: Found[T] = {}
        self._labels: dict[str, _Values[T]] = {}
        self._fields: dict[str, _Values[T]] = {}
        self._terms: dict[T, Term | None] = {}  # the term that each owner is stored under

    def __len__(self) -> int:
        return len(self._terms)

    def __iter__(self) -> Iterator[T]:
        return iter(self._terms)

    def add(self, owner: T, wanted: Criteria, match: Match | None) -> None:
        """Store a selector under its term with the fewest selectors so far."""
        term = min(wanted.terms, key=self._load, default=None)
        self._terms[owner] = term
        check = None if wanted.implied else match
        if term is None:
            self._always[owner] = check
            return
        values = self._keys(term).setdefault(term.key, {})
        for value in term.values or (None,):
            values.setdefault(value, {})[owner] = check

    def _load(self, term: Term) -> int:
        """Return the cost of storing a selector under this term: its values, and the selectors that share them."""
        values = self._keys(term).get(term.key)
        if values is None:
            return term.cost
        return term.cost + sum(len(values.get(value, ())) for value in term.values or (None,))

    def _keys(self, term: Term) -> dict[str, _Values[T]]:
        return self._fields if term.field else self._labels

    def remove(self, owner: T) -> None:
        term = self._terms.pop(owner)
        if term is None:
            del self._always[owner]
            return
        keys = self._keys(term)
        values = keys[term.key]
        for value in term.values or (None,):
            found = values[value]
            del found[owner]
            if not found:
                del values[value]
        if not values:
            del keys[term.key]

    def find(self, facts: bytes, before: bytes | None = None) -> list[Found[T]]:
        """Return the selectors that may match an object with these facts, or with its previous ones."""
        found: dict[int, Found[T]] = {}  # by id, because most labels are the same before and after
        if self._always:
            found[0] = self._always
        if self._labels or self._fields:
            self._look_up(facts, found)
            if before is not None and before != facts:
                self._look_up(before, found)
        return list(found.values())

    def _look_up(self, facts: bytes, found: dict[int, Found[T]]) -> None:
        for keys, flat in zip((self._labels, self._fields), unpack_selectable(facts), strict=True):
            if not keys:
                continue
            for position in range(0, len(flat), 3):
                values = keys.get(flat[position])
                if values is not None:
                    for value in (flat[position + 2], None):
                        owners = values.get(value)
                        if owners is not None:
                            found[id(owners)] = owners
