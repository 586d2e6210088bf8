"""The objects at the end of a run, without what differs between runs in which the controllers did the same.

Uids, versions, times and managedFields are left out. A value that the server chose is replaced by its origin
(`chosen`): a uid in a label, an address in a text, a generated name in a reference. Lists that the API defines as sets
or maps are sorted. Events are left out, and objects that the run did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from rewound.testing.explore.chosen import Chosen, same_origin
from rewound.testing.explore.invariants import State

_DROPPED: Final = frozenset(("uid", "resourceVersion", "generation", "managedFields", "selfLink"))
_SETS: Final = ("finalizers", "ownerReferences", "conditions")
_EVENTS: Final = ("events", "events.events.k8s.io")
_CURRENT: Final = "current"  # in place of an observedGeneration that is current
_SIGNED: Final = "signed by the server"

Normalize = Callable[[dict[str, Any]], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class End:
    objects: list[tuple[str, Any]]  # names and contents; None for a deleted object
    chosen: Chosen


def end_state(state: State, chosen: Chosen, normalize: Normalize | None = None) -> End:
    """The state at the end of a run, without objects for which `normalize` returns None."""
    found = []
    for key, first, one in state.changed():
        if key[0] in _EVENTS:
            continue
        content = None if one is None else _stable(one, chosen)
        if first is not None and content == _stable(first, chosen):
            continue
        if content is not None and normalize is not None:
            content = normalize(content)
            if content is None:
                continue
        found.append((chosen.name(key), content))
    return End(sorted(found, key=lambda one: (one[0], _text(one[1]))), chosen)


def _stable(one: Any, chosen: Chosen) -> Any:
    content = _Stable(chosen, one["metadata"].get("generation")).of(one)
    if one.get("kind") == "Secret" and one.get("type") == "kubernetes.io/service-account-token":
        content.get("data", {}).pop("token", None)
    elif one.get("kind") == "CertificateSigningRequest" and content.get("status", {}).get("certificate"):
        content["status"]["certificate"] = _SIGNED
    return content


class _Stable:
    def __init__(self, chosen: Chosen, generation: int | None) -> None:
        self._chosen, self._generation = chosen, generation

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._members(value)
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._chosen.text(value) if isinstance(value, str) else value

    def _members(self, value: dict[str, Any]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, one in value.items():
            if key not in _DROPPED and not key.endswith(("Time", "Timestamp")):
                self._put(members, self._chosen.text(key), key, one)
        return members

    def _put(self, members: dict[str, Any], name: str, key: str, one: Any) -> None:
        while name in members:  # two generated names with the same prefix
            name += "'"
        if key == "observedGeneration" and one is not None and one == self._generation:
            members[name] = _CURRENT
        elif key in _SETS and isinstance(one, list):
            members[name] = sorted((self.of(item) for item in one), key=_text)
        else:
            members[name] = self.of(one)


def differences(expected: End, found: End) -> list[str]:
    """Describe how two end states differ, one line for each object."""
    missing, added = list(expected.objects), []
    for one in found.objects:
        same = next((other for other in missing if not _changed(other, one, expected, found)), None)
        if same is None:
            added.append(one)
        else:
            missing.remove(same)
    lines = []
    for name, content in added:
        other = next((one for one in missing if one[0] == name), None)
        if other is None:
            lines.append(f"{name} is there, and should not be")
        else:
            missing.remove(other)
            lines += [f"{name}: {line}" for line in _changes("", other[1], content, expected, found)]
    return lines + [f"{name} is missing" for name, _ in missing]


def _changed(one: tuple[str, Any], other: tuple[str, Any], expected: End, found: End) -> bool:
    if one[0] != other[0]:
        return True
    return one[1] != other[1] and next(_changes("", one[1], other[1], expected, found), None) is not None


def _changes(path: str, old: Any, new: Any, expected: End, found: End) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield from _changes(
                    f"{path}.{key}" if path else key, old.get(key), new.get(key), expected, found
                )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                yield from _changes(f"{path}[{index}]", one, other, expected, found)
    elif not same_origin(old, expected.chosen, new, found.chosen):
        yield f"{path} is {_short(new)}, and {_short(old)} without faults"


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
