"""Gives each node networks for its pods: `spec.podCIDRs`, one of each network of the cluster (`--cluster-cidr`).

What nodes have is found in the Node objects, so nothing else is stored. A network is free again when its node is gone.
"""

from __future__ import annotations

from rewound.actors.allocation.node_networks import node_networks
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.errors import NotFound, RequestError
from rewound.actors.messages import Object
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import is_terminating


class NodeIpam(WorkloadController):
    name, account, component = "nodeipam", "node-controller", "cidrAllocator"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._options, self._services = parts.context.workloads, parts.context.networks
        self._begin()
        self._nodes = self.keyed_by("nodes")
        self._nodes.listen(self._node_changed)

    def _begin(self) -> None:
        options = self._options
        self._pools = node_networks(
            options.cluster_cidr,
            options.node_cidr_mask_size,
            options.node_cidr_mask_size_ipv4,
            options.node_cidr_mask_size_ipv6,
        )
        for network in self._services:
            self._occupy([network])

    async def catch_up(self) -> None:
        await self.cache.loaded()
        self._begin()
        await self._nodes.visit(lambda node: self._occupy(_networks(node)))
        await super().catch_up()

    def _occupy(self, networks: list[str]) -> None:
        for pool in self._pools:
            for one in networks:
                pool.occupy(one)

    def _release(self, networks: list[str]) -> None:
        for pool in self._pools:
            for one in networks:
                pool.release(one)
        for one in self._services:
            self._occupy([one])

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (_networks(one) if one is not None else [] for one in (old, new))
        if before != after:
            self._release(before)
            self._occupy(after)

    async def reconcile(self, key: Key) -> None:
        node = self._nodes.get(*key)
        if node is None or is_terminating(node) or _networks(node):
            return
        taken = [pool.take() for pool in self._pools]
        found = [one for one in taken if one is not None]
        if len(found) < len(taken):
            self._release(found)
            self._report(node, "CIDRNotAvailable")
            raise RetryLater
        patch = {
            "metadata": {"uid": node["metadata"]["uid"]},
            "spec": {"podCIDR": found[0], "podCIDRs": found},
        }
        try:
            await self.client.patch(self._nodes.definition, *key, patch, "strategic")
        except RequestError as refused:
            current = self._nodes.get(*key)
            if current is None or _networks(current) != found:
                self._release(found)
            if isinstance(refused, NotFound):
                return
            self._report(node, "CIDRAssignmentFailed")
            raise

    def _report(self, node: Object, reason: str) -> None:
        name = node["metadata"]["name"]
        text = f"Node {name} status is now: {reason}"
        self.recorder.event(self._nodes.definition, node, "Normal", reason, text)


def _networks(node: Object) -> list[str]:
    networks: list[str] = node.get("spec", {}).get("podCIDRs") or []
    return networks
