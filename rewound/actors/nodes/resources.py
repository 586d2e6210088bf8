"""The resources of a whole pod, as its node allocates them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.quantity import parse_quantity, quantity_text

Amount = tuple[int, str]  # nano-units and the style of the suffix
Amounts = dict[str, Amount]  # by resource
_KINDS: Final = ("requests", "limits")
_FURTHER: Final = ("initContainers", "overhead", "resources")  # parts of a spec that add resources
_OF_PODS: Final = ("cpu", "memory", "hugepages-")


def pod_resources(spec: Object) -> Object:
    """`requests` and `limits` of a pod: its own of CPU, memory and huge pages, else those of its containers.

    Containers run together, with the sidecars; init containers before them, with the sidecars before them. There is a
    limit only if every container has one.
    """
    if len(spec["containers"]) == 1 and not any(spec.get(part) for part in _FURTHER):
        given = spec["containers"][0].get("resources") or {}
        return {kind: given[kind] for kind in _KINDS if given.get(kind)}
    return {kind: found for kind in _KINDS if (found := _of_kind(spec, kind))}


def _of_kind(spec: Object, kind: str) -> Object:
    lasting: Amounts = {}
    having: Counter[str] = Counter()  # how many of the containers that run together have each resource
    regular = [_amounts(one, kind) for one in spec["containers"]]
    for amounts in regular:
        _add(lasting, amounts)
        having.update(amounts.keys())
    number = len(regular)
    sidecars: Amounts = {}
    peaks: Amounts = {}
    for one in spec.get("initContainers") or ():
        amounts = _amounts(one, kind)
        if one.get("restartPolicy") == "Always":
            _add(sidecars, amounts)
            having.update(amounts.keys())
            number += 1
            _raise(peaks, {name: sidecars[name] for name in amounts})
        else:
            _raise(peaks, {name: _sum(sidecars.get(name), value) for name, value in amounts.items()})
    _add(lasting, sidecars)
    total = dict(lasting)
    _raise(total, peaks)
    if kind == "limits":
        total = {name: value for name, value in total.items() if having[name] == number}
    for name, value in _amounts(spec, kind).items():
        if name.startswith(_OF_PODS):
            total[name] = value
    overhead = {name: parse_quantity(text) for name, text in (spec.get("overhead") or {}).items()}
    if kind == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    _add(total, overhead)
    return {name: quantity_text(*amount) for name, amount in total.items()}


def _amounts(container: Object, kind: str) -> Amounts:
    found = (container.get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(text) for name, text in found.items()}


def _add(total: Amounts, amounts: Amounts) -> None:
    for name, value in amounts.items():
        total[name] = _sum(value, total.get(name))


def _sum(value: Amount | None, before: Amount | None) -> Amount:
    """The sum, with the suffix of what was there before."""
    if value is None or before is None:
        return value or before or (0, "")
    return before[0] + value[0], before[1] if before[0] else value[1]


def _raise(most: Amounts, amounts: Amounts) -> None:
    for name, value in amounts.items():
        if name not in most or value[0] > most[name][0]:
            most[name] = value
