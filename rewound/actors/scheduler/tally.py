"""Sums over the nodes of a cluster by topology: how many pods of some kind each zone, each host, each rack has.

What a node adds depends only on the node, so a changed node's old part is subtracted and its new part added. A pair of
topology key and value stays as long as a node adds something to it, even a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from rewound.actors.scheduler.nodes import Cluster, NodeState

Pair = tuple[str, str]  # a topology key and its value
Part = dict[Pair, int]  # what one node adds

_NOTHING: Final[Part] = {}


class Tally:
    def __init__(self, cluster: Cluster, part_of: Callable[[NodeState], Part]) -> None:
        self._cluster, self._part_of = cluster, part_of
        self.sums: Part = {}
        self._holders: Part = {}
        self._parts: dict[str, Part] = {}

    def refresh(self, names: Collection[str]) -> None:
        """Count these nodes for the first time or again."""
        for name in names:
            node = self._cluster.nodes.get(name)
            self._replace(name, _NOTHING if node is None else self._part_of(node))

    def assuming(self, node: NodeState) -> Tally:
        """The sums, assuming the node of this name were as given."""
        made = Tally.__new__(Tally)
        made._cluster, made._part_of = self._cluster, self._part_of
        made.sums, made._holders = dict(self.sums), dict(self._holders)
        made._parts = {node.name: self._parts.get(node.name, _NOTHING)}
        made._replace(node.name, self._part_of(node))
        return made

    def _replace(self, name: str, part: Part) -> None:
        before = self._parts.get(name, _NOTHING)
        if before == part:
            return
        for pair, value in before.items():
            self.sums[pair] -= value
            self._holders[pair] -= 1
        for pair, value in part.items():
            self.sums[pair] = self.sums.get(pair, 0) + value
            self._holders[pair] = self._holders.get(pair, 0) + 1
        for pair in before:
            if not self._holders[pair]:
                del self.sums[pair], self._holders[pair]
        self._parts[name] = part
