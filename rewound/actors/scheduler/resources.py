"""The plugins of resources and images: what fits on a node, and how its free resources score.

Scores count requests as hundredths of what nodes offer, and round down to whole numbers as v1.25 does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rewound.actors.scheduler.dynamic_resources import DEVICE_CLASS
from rewound.actors.scheduler.nodes import NodeState, insufficient
from rewound.actors.scheduler.plugins import (
    MAX_SCORE,
    NODE_ADD,
    NODE_UPDATE,
    POD_DELETE,
    Failure,
    Filter,
    Plugin,
    Prepared,
    SchedulingContext,
    Score,
)
from rewound.actors.scheduler.pods import (
    CPU,
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    MEMORY,
    PODS,
    PodFacts,
    PodShape,
    amount,
)
from rewound.actors.versions.features import (
    BALANCE_OF_REQUESTS,
    FIT_OF_CONTAINERS,
    IMPROVED_BALANCE,
    MILLI_OVERHEAD,
    REQUEST_OVER_NODE,
)

Weights = Mapping[str, int]  # by resource
# From (requested, allocatable, weight) of each resource to the score of the node.
Strategy = Callable[[Sequence[tuple[int, int, int]]], int]
DEFAULT_WEIGHTS: Final[Weights] = {CPU: 1, MEMORY: 1}


class _FitFilter(Filter):
    def __init__(
        self, pod: PodFacts, features: frozenset[str], ignored: frozenset[str], devices: frozenset[str]
    ) -> None:
        """`devices`: the requested resources that device classes provide on nodes which have none themselves."""
        self._requests, self._features, self._ignored = pod.shape.requests, features, ignored
        self._devices = devices

    def check(self, node: NodeState) -> Failure | None:
        ignored = self._ignored
        if self._devices:
            ignored |= {name for name in self._devices if not node.allocatable.get(name)}
        missing = insufficient(self._requests, node, self._features, ignored)
        if not missing:
            return None
        reasons = ("Too many pods" if one == PODS else f"Insufficient {one}" for one in missing)
        return Failure("NodeResourcesFit", tuple(reasons), not self._exceeds(node, missing))

    def _exceeds(self, node: NodeState, missing: Sequence[str]) -> bool:
        """Whether even an empty node would be too small."""
        if REQUEST_OVER_NODE not in self._features:
            return False
        return any(self._requests[one] > node.allocatable.get(one, 0) for one in missing if one != PODS)


class _ResourceScore(Score):
    """The requests of the chosen resources with the pod on the node, scored by a strategy."""

    def __init__(
        self, pod: PodFacts, around: SchedulingContext, weights: Weights, strategy: Strategy, *, nonzero: bool
    ) -> None:
        self._strategy, self._nonzero = strategy, nonzero
        shapes = around.cluster.shapes
        self._wanted = [
            (name, weight, wanted)
            for name, weight in weights.items()
            if (wanted := _request(pod.shape, name, around.cluster.features, nonzero=nonzero))
            or not shapes.is_scalar(name)
        ]

    def key(self, node: NodeState) -> int:
        return self._strategy(self._amounts(node, with_pod=True))

    def _amounts(self, node: NodeState, *, with_pod: bool) -> list[tuple[int, int, int]]:
        found = []
        for name, weight, wanted in self._wanted:
            allocatable = node.allocatable.get(name, 0)
            if allocatable:
                found.append((self._requested(node, name) + wanted * with_pod, allocatable, weight))
        return found

    def _requested(self, node: NodeState, name: str) -> int:
        if self._nonzero and name == CPU:
            return node.nonzero_cpu
        if self._nonzero and name == MEMORY:
            return node.nonzero_memory
        return node.requested.get(name, 0)

    def scores(self, keys: Mapping[int, int]) -> Mapping[int, int]:
        return {key: key for key in keys}


class _ImprovementScore(_ResourceScore):
    """75 if the pod does not change the score of the node, up to 100 if it improves it, down to 50 otherwise."""

    def key(self, node: NodeState) -> int:
        before = self._strategy(self._amounts(node, with_pod=False))
        half = MAX_SCORE // 2
        return half + (half + super().key(node) - before) // 2


def _request(shape: PodShape, name: str, features: frozenset[str], *, nonzero: bool) -> int:
    """The request of a pod for scores. Before MILLI_OVERHEAD, overhead counts in whole units, also of CPU.

    `nonzero`: for the score of NodeResourcesFit, which gives every container a default request.
    """
    default = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}.get(name, 0) if nonzero else 0
    total = shape.requested.total(name, default, of_containers=nonzero and FIT_OF_CONTAINERS in features)
    overhead = shape.requested.overhead.get(name) if MILLI_OVERHEAD not in features else None
    return total if overhead is None else total - amount(name, overhead) + amount("", overhead)


def least_allocated(resources: Sequence[tuple[int, int, int]]) -> int:
    return _weighted(resources, lambda used, all_: 0 if used > all_ else (all_ - used) * MAX_SCORE // all_)


def most_allocated(resources: Sequence[tuple[int, int, int]]) -> int:
    return _weighted(resources, lambda used, all_: min(used, all_) * MAX_SCORE // all_)


def _weighted(resources: Sequence[tuple[int, int, int]], score: Callable[[int, int], int]) -> int:
    weights = sum(weight for _, _, weight in resources)
    if not weights:
        return 0
    return sum(score(used, all_) * weight for used, all_, weight in resources) // weights


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """By a piecewise linear function of points: utilization in percent, score of 0 to 10."""
    points = [(utilization, score * MAX_SCORE // 10) for utilization, score in shape]

    def strategy(resources: Sequence[tuple[int, int, int]]) -> int:
        total = weights = 0
        for used, all_, weight in resources:
            score = _on_line(points, 100 if used > all_ else used * 100 // all_)
            if score > 0:
                total += score * weight
                weights += weight
        return math.floor(total / weights + 0.5) if weights else 0

    return strategy


def _on_line(points: Sequence[tuple[int, int]], utilization: int) -> int:
    for at, (right, score) in enumerate(points):
        if utilization <= right:
            if at == 0:
                return points[0][1]
            left, before = points[at - 1]
            risen = (score - before) * (utilization - left)
            return before + _towards_zero(risen, right - left)
    return points[-1][1]


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def balanced(resources: Sequence[tuple[int, int, int]]) -> int:
    """Higher if the resources are requested in equal fractions."""
    fractions = [min(used / all_, 1.0) for used, all_, _ in resources]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((one - mean) ** 2 for one in fractions) / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


class NodeResourcesFit(Plugin):
    name, filters, scores = "NodeResourcesFit", True, True
    wakes = frozenset([POD_DELETE, NODE_ADD, *NODE_UPDATE, DEVICE_CLASS])

    def __init__(
        self,
        strategy: Strategy = least_allocated,
        weights: Weights = DEFAULT_WEIGHTS,
        ignored: frozenset[str] = frozenset(),
        ignored_groups: frozenset[str] = frozenset(),
    ) -> None:
        self._strategy, self._weights = strategy, weights
        self._ignored, self._ignored_groups = ignored, ignored_groups

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        ignored = frozenset(
            name
            for name in pod.shape.requests
            if around.cluster.shapes.is_extended(name)
            and (name in self._ignored or name.split("/", 1)[0] in self._ignored_groups)
        )
        score = _ResourceScore(pod, around, self._weights, self._strategy, nonzero=True)
        devices = around.devices.delegated(pod.shape.requests) if around.devices is not None else frozenset()
        return Prepared(_FitFilter(pod, around.cluster.features, ignored, devices), score)


class NodeResourcesBalancedAllocation(Plugin):
    name, scores = "NodeResourcesBalancedAllocation", True
    wakes: frozenset[str] = frozenset()

    def __init__(self, weights: Weights = DEFAULT_WEIGHTS) -> None:
        self._weights = weights

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        features = around.cluster.features
        if BALANCE_OF_REQUESTS in features and not any(
            _request(pod.shape, name, features, nonzero=False) for name in self._weights
        ):
            return Prepared()
        kind = _ImprovementScore if IMPROVED_BALANCE in features else _ResourceScore
        return Prepared(score=kind(pod, around, self._weights, balanced, nonzero=False))


_MEGABYTE: Final = 1024 * 1024
_SMALLEST: Final = 23 * _MEGABYTE
_LARGEST: Final = 1000 * _MEGABYTE  # for each container


class _ImageScore(Score):
    """The sizes of images that the node has; images on few nodes count less, so that no node is crowded."""

    def __init__(self, images: Sequence[str], around: SchedulingContext) -> None:
        self._images, self._cluster = images, around.cluster

    def key(self, node: NodeState) -> tuple[int | None, ...]:
        """The sizes of the images; how many nodes have each counts in `scores`, because it changes with any node."""
        return tuple(map(node.images.get, self._images))

    def scores(self, keys: Mapping[tuple[int | None, ...], int]) -> Mapping[tuple[int | None, ...], int]:
        nodes = len(self._cluster.nodes)
        shares = [self._cluster.images[image] / nodes for image in self._images]
        most = _LARGEST * len(self._images)
        found = {}
        for key in keys:
            total = sum(
                int(size * share) for size, share in zip(key, shares, strict=True) if size is not None
            )
            found[key] = MAX_SCORE * (min(max(total, _SMALLEST), most) - _SMALLEST) // (most - _SMALLEST)
        return found


class ImageLocality(Plugin):
    name, scores = "ImageLocality", True
    wakes: frozenset[str] = frozenset()

    def prepare(self, pod: PodFacts, around: SchedulingContext) -> Prepared:
        images = [_with_tag(one.get("image", "")) for one in pod.spec["containers"]]
        if not any(around.cluster.images[image] for image in images):
            return Prepared()
        return Prepared(score=_ImageScore(images, around))


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
