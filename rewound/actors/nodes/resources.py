"""The resources of a whole pod, as its node allocates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.quantity import parse_quantity, quantity_text

Amounts = dict[str, tuple[int, str]]  # nano-units and the style of the suffix, by resource
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
    regular = [_amounts(one, kind) for one in spec["containers"]]
    sidecars: list[Amounts] = []
    peaks: list[Amounts] = []
    for one in spec.get("initContainers") or ():
        amounts = _amounts(one, kind)
        if one.get("restartPolicy") == "Always":
            sidecars.append(amounts)
            amounts = {}
        peaks.append(_sum([amounts, *sidecars]))
    lasting = [*regular, *sidecars]
    total = _sum(lasting)
    for peak in peaks:
        for name, amount in peak.items():
            total[name] = max(total.get(name, amount), amount, key=lambda one: one[0])
    if kind == "limits":
        total = {name: amount for name, amount in total.items() if all(name in one for one in lasting)}
    for name, amount in _amounts(spec, kind).items():
        if name.startswith(_OF_PODS):
            total[name] = amount
    overhead = {name: parse_quantity(text) for name, text in (spec.get("overhead") or {}).items()}
    if kind == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    total = _sum([total, overhead])
    return {name: quantity_text(*amount) for name, amount in total.items()}


def _amounts(container: Object, kind: str) -> Amounts:
    found = (container.get("resources") or {}).get(kind) or {}
    return {name: parse_quantity(text) for name, text in found.items()}


def _sum(lists: Sequence[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        for name, (amount, style) in amounts.items():
            before, first = total.get(name, (0, style))
            total[name] = before + amount, first if before else style
    return total
