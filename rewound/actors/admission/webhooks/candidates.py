"""Webhooks or policies whose rules match a write, compiled so that objects which none selects cost a lookup per label.

One with an objectSelector that needs a label is found by this label; of those that need none, each different selector
is evaluated once per write. Comments say webhook for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from rewound.actors.admission.request import CONNECT, AdmissionRequest
from rewound.actors.admission.webhooks.hook import Hook
from rewound.actors.admission.webhooks.selector import Selector
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object

Labels = Mapping[str, str]


class Selecting(Protocol):
    """What selects objects and namespaces by their labels: a webhook, or a policy."""

    @property
    def object_selector(self) -> Selector | None: ...

    @property
    def selects_namespaces(self) -> bool: ...

    def in_namespace(self, matches: Callable[[Selector | None], bool]) -> bool:
        """Whether it may match in a namespace, whose labels `matches` knows."""


T = TypeVar("T", bound=Selecting)


class Matched(NamedTuple, Generic[T]):
    """A webhook to ask, and the version of the kind in which it gets the object."""

    position: int  # among all webhooks, called or not
    hook: T
    definition: Definition


Match: TypeAlias = Matched[Hook]


class _Selected(NamedTuple, Generic[T]):
    """The webhooks that have the same objectSelector."""

    selector: Selector
    matches: tuple[Matched[T], ...]


class Candidates(Generic[T]):
    """Webhooks whose rules, and maybe namespaceSelector, match; only the objectSelector is left to match."""

    __slots__ = ("_by_key", "_by_label", "_needed_keys", "_others", "_unselective", "matches")

    def __init__(self, found: Iterable[Matched[T]]) -> None:
        self.matches = tuple(found)
        self._unselective = tuple(one for one in self.matches if one.hook.object_selector is None)
        self._by_label: dict[tuple[str, str], list[_Selected[T]]] = {}
        self._by_key: dict[str, list[_Selected[T]]] = {}
        self._others: list[_Selected[T]] = []  # need no label
        for one in _grouped(self.matches):
            self._add(one)
        # No object is selected that has none of these labels; None: some may be.
        keys = frozenset((*(key for key, _ in self._by_label), *self._by_key))
        self._needed_keys = None if self._unselective or self._others else keys

    def _add(self, one: _Selected[T]) -> None:
        selector = one.selector
        if selector.needed_labels:
            for label in selector.needed_labels:
                self._by_label.setdefault(label, []).append(one)
        elif selector.needed_key:
            self._by_key.setdefault(selector.needed_key, []).append(one)
        else:
            self._others.append(one)

    def selecting(self, request: AdmissionRequest) -> Sequence[Matched[T]]:
        """Those whose objectSelector matches the object or the one before, in the order in which they are called."""
        if len(self._unselective) == len(self.matches):
            return self.matches
        new, old = labels_of(request)
        needed = self._needed_keys
        if needed is not None and (not new or needed.isdisjoint(new)) and (not old or needed.isdisjoint(old)):
            return ()
        found = {one.position: one for one in self._unselective}
        self._select(new, found)
        if old != new:
            self._select(old, found)
        return [found[position] for position in sorted(found)]

    def _select(self, labels: Labels | None, found: dict[int, Matched[T]]) -> None:
        if labels is None:
            return
        by_label, by_key = self._by_label, self._by_key
        some = [*self._others]
        for label in labels.items():
            some += by_label.get(label, ())
            some += by_key.get(label[0], ())
        for one in some:
            if one.selector.matches(labels):
                found.update((match.position, match) for match in one.matches)


def _grouped(matches: tuple[Matched[T], ...]) -> Iterable[_Selected[T]]:
    groups: dict[Selector, list[Matched[T]]] = {}
    for one in matches:
        if one.hook.object_selector is not None:
            groups.setdefault(one.hook.object_selector, []).append(one)
    return (_Selected(selector, tuple(found)) for selector, found in groups.items())


def matching_namespace(matches: Iterable[Matched[T]], labels: Labels) -> Candidates[T]:
    """Those whose namespaceSelector matches the labels of a namespace; equal selectors are evaluated once."""
    verdicts: dict[Selector | None, bool] = {None: True}

    def selected(selector: Selector | None) -> bool:
        verdict = verdicts.get(selector)
        if verdict is None:
            assert selector is not None
            verdict = verdicts[selector] = selector.matches(labels)
        return verdict

    return Candidates(one for one in matches if one.hook.in_namespace(selected))


def selects_object(hook: Selecting, request: AdmissionRequest) -> bool:
    """Whether the objectSelector of a webhook matches the object or the one before."""
    selector = hook.object_selector
    if selector is None:
        return True
    return any(labels is not None and selector.matches(labels) for labels in labels_of(request))


def labels_of(request: AdmissionRequest) -> tuple[Labels | None, Labels | None]:
    """The labels of the object and of the one before; None without an object, or if it cannot have labels."""
    if request.operation == CONNECT:
        return None, None
    new = own_labels(request.object) if request.object is not None else None
    if request.old is None:
        return new, None
    definition = request.definition
    whole = definition.definition_at(request.subresource) is definition
    return new, own_labels(request.old) if whole else {}  # a view such as Scale shows no labels


def own_labels(stored: Object | None) -> Labels:
    if stored is None:
        return {}
    found: Labels | None = stored["metadata"].get("labels")
    return found or {}
