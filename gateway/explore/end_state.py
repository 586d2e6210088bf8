"""The objects at the end of a run, without what differs from run to run though the controllers did the same.

Uids, versions, times and managedFields are left out. The random part of a generated name is `*`, also in references to
it, so that objects with such names are compared by their content. Events are left out, and the objects that were there
before and have not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from rewound.gateway.explore.invariants import State

_DROPPED: Final = frozenset(("uid", "resourceVersion", "generation", "managedFields", "selfLink"))
_EVENTS: Final = ("events", "events.events.k8s.io")

Normalize = Callable[[dict[str, Any]], dict[str, Any] | None]


def end_state(state: State, normalize: Normalize | None = None) -> list[tuple[str, str]]:
    """What each object is called, and its content as JSON. An object for which `normalize` returns None is left out."""
    generated = dict(_generated(state))
    found = []
    for (resource, namespace, name), one in state.changed():
        if resource in _EVENTS:
            continue
        kept = one if one is None else _stable(one, generated)
        if kept is not None and normalize is not None:
            kept = normalize(kept)
            if kept is None:
                continue
        text = "/".join(filter(None, (namespace, generated.get(name, name))))
        found.append((f"{resource} {text}", orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()))
    return sorted(found)


def _generated(state: State) -> Iterator[tuple[str, str]]:
    for _, one in state.changed():
        if one is None:
            continue
        prefix, name = one["metadata"].get("generateName"), one["metadata"]["name"]
        if prefix and name.startswith(prefix):
            yield name, f"{prefix}*"


def _stable(value: Any, generated: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _stable(one, generated)
            for key, one in value.items()
            if key not in _DROPPED and not key.endswith(("Time", "Timestamp"))
        }
    if isinstance(value, list):
        return [_stable(one, generated) for one in value]
    return generated.get(value, value) if isinstance(value, str) else value


def differences(expected: list[tuple[str, str]], found: list[tuple[str, str]]) -> list[str]:
    """How two ends differ, a line for each object."""
    missing, added = Counter(expected), Counter(found)
    missing, added = missing - added, added - missing
    lines = []
    for (name, content), count in sorted(added.items()):
        other = next((one for one in missing if one[0] == name), None)
        if other is not None and count == 1:
            missing[other] -= 1
            missing += Counter()
            lines += [
                f"{name}: {line}" for line in _changes("", orjson.loads(other[1]), orjson.loads(content))
            ]
        else:
            lines.append(f"{name} is there{f' {count} times more' if count > 1 else ', and should not be'}")
    for (name, _), count in sorted(missing.items()):
        lines.append(f"{name} is missing" + (f" {count} times" if count > 1 else ""))
    return lines


def _changes(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield from _changes(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    else:
        yield f"{path} is {_short(new)}, and {_short(old)} without faults"


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
