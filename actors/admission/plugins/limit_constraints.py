"""The constraints of LimitRanges: which amounts of a container, a pod or a claim they allow, and why not.

A `LimitRange` is parsed once; checks compare whole nano-units. Several violations of one LimitRange make one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from actors.kinds.core.resources import nanos
from actors.kinds.values.quantity import NANOS, canonical_quantity
from actors.messages import Object

Amounts = Mapping[str, str]  # quantities by the name of the resource

MILLIS: Final = NANOS // 1000
_NONE: Final[Amounts] = {}


@dataclass(frozen=True, slots=True)
class Limit:
    """One item of a LimitRange; the names of its amounts are sorted."""

    type: str  # Container, Pod or PersistentVolumeClaim
    min: Amounts
    max: Amounts
    ratio: Amounts  # maxLimitRequestRatio


@dataclass(frozen=True, slots=True)
class LimitRange:
    limits: tuple[Limit, ...]
    # Of containers.
    default_limits: Amounts
    default_requests: Amounts


def parse_limit_range(stored: Object) -> LimitRange:
    items = stored["spec"]["limits"] or ()
    containers = [one for one in items if one["type"] == "Container"]
    return LimitRange(
        tuple(
            Limit(
                one["type"],
                _sorted(one.get("min")),
                _sorted(one.get("max")),
                _sorted(one.get("maxLimitRequestRatio")),
            )
            for one in items
        ),
        _sorted({name: amount for one in containers for name, amount in one.get("default", _NONE).items()}),
        _sorted(
            {name: amount for one in containers for name, amount in one.get("defaultRequest", _NONE).items()}
        ),
    )


def _sorted(amounts: Amounts | None) -> Amounts:
    return dict(sorted(amounts.items())) if amounts else _NONE


def pod_violations(limit_range: LimitRange, pod: Object) -> str:
    """Why the LimitRange does not allow the pod, "" if it does."""
    spec, found = pod["spec"], list[str]()
    for limit in limit_range.limits:
        if limit.type == "Container":
            for container in (*(spec["containers"] or ()), *spec.get("initContainers", ())):
                resources = container["resources"]
                requests, limits = resources.get("requests", _NONE), resources.get("limits", _NONE)
                found += _violations(limit, requests, limits)
        elif limit.type == "Pod":
            found += _violations(limit, _pod_total(spec, "requests"), _pod_total(spec, "limits"))
    return _joined(found)


def claim_violations(limit_range: LimitRange, claim: Object) -> str:
    """Like `pod_violations`, for a PersistentVolumeClaim. Only its requests count."""
    requests, found = claim["spec"]["resources"].get("requests", _NONE), list[str]()
    for limit in limit_range.limits:
        if limit.type == "PersistentVolumeClaim":
            found += _below_min(limit, requests, _NONE)
            for name, most in limit.max.items():
                start = f"maximum {name} usage per {limit.type} is {most}"
                request = requests.get(name)
                if request is None:
                    found.append(f"{start}.  No request is specified")
                elif nanos(request) > nanos(most):
                    found.append(f"{start}, but request is {request}")
    return _joined(found)


def _joined(found: list[str]) -> str:
    """One message for all violations; equal ones count once."""
    distinct = list(dict.fromkeys(found))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


def _violations(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below_min(limit, requests, limits)
    yield from _above_max(limit, requests, limits)
    yield from _above_ratio(limit, requests, limits)


def _below_min(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in limit.min.items():
        start = f"minimum {name} usage per {limit.type} is {least}"
        request, most = requests.get(name), limits.get(name)
        if request is None:
            yield f"{start}.  No request is specified"
        elif nanos(request) < nanos(least):
            yield f"{start}, but request is {request}"
        elif most is not None and nanos(most) < nanos(least):
            yield f"{start}, but limit is {most}"


def _above_max(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, most in limit.max.items():
        start = f"maximum {name} usage per {limit.type} is {most}"
        request, own = requests.get(name), limits.get(name)
        if own is None:
            yield f"{start}.  No limit is specified"
        elif nanos(own) > nanos(most):
            yield f"{start}, but limit is {own}"
        elif request is not None and nanos(request) > nanos(most):
            yield f"{start}, but request is {request}"


def _above_ratio(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, largest in limit.ratio.items():
        start = f"{name} max limit to request ratio per {limit.type} is {largest}"
        request, own = nanos(requests.get(name, "0")), nanos(limits.get(name, "0"))
        if not request:
            yield f"{start}, but no request is specified or request is 0"
        elif not own:
            yield f"{start}, but no limit is specified or limit is 0"
        elif own * NANOS > nanos(largest) * request:
            yield f"{start}, but provided ratio is {own / request:f}"


def _pod_total(spec: Object, part: str) -> Amounts:
    """The sum of the containers where each has an amount, or that of an init container if it is larger."""
    containers = [one["resources"].get(part, _NONE) for one in spec["containers"] or ()]
    total = _sum(containers)
    for one in spec.get("initContainers", ()):
        for name, amount in one["resources"].get(part, _NONE).items():
            if name not in total or nanos(amount) > nanos(total[name]):
                total[name] = amount
    return total


def _sum(containers: list[Amounts]) -> dict[str, str]:
    names = set[str]().union(*containers)
    return {
        name: _total(name, (one[name] for one in containers))
        for name in names
        if all(name in one for one in containers)
    }


def _total(name: str, amounts: Iterable[str]) -> str:
    """CPU has thousandths, all else whole units; a sum is written with decimal suffixes."""
    if name == "cpu":
        return canonical_quantity(f"{sum(-(-nanos(one) // MILLIS) for one in amounts)}m")
    return canonical_quantity(str(sum(-(-nanos(one) // NANOS) for one in amounts)))
