"""PVC protection: a deleted claim stays while a pod uses it.

As in v1.25, a pod uses a claim from when it is bound to a node until it is removed, even if it has finished before; a
pod without a node does not, because no node starts a pod whose claim is being deleted.
"""

from __future__ import annotations

import trio

from actors.controllers.context import ControllerContext
from actors.controllers.pages import Position, next_page
from actors.controllers.storage.pods_by_claim import PodsByClaim
from actors.controllers.storage.protection import FinalizerRelease, Key
from actors.messages import Object
from journal.records import Event


class ClaimProtection(FinalizerRelease):
    name = "PVC protection controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolumeclaims", "pvc-protection")
        self._pods = context.journal.type_id("pods")
        self.observed_types = frozenset({self._protected, self._pods})
        self._users = PodsByClaim()

    def is_in_use(self, key: Key, stored: Object) -> bool:
        owners = stored["metadata"].get("ownerReferences") or ()
        controllers = {owner["uid"] for owner in owners if owner.get("controller")}
        return self._users.uses(key, controllers)

    def observe_user(self, event: Event) -> None:
        if event.type_id != self._pods:
            return
        pod = (event.namespace, event.name)
        for claim in self._users.remove(pod) if event.removed else self._users.update(pod, event.body):
            self.queue.add(claim)

    async def catch_up(self) -> None:
        self._users.clear()
        after: Position | None = None
        while (after := self._scan_pods(after)) is not None:
            await trio.lowlevel.checkpoint()
        await super().catch_up()

    def _scan_pods(self, after: Position | None) -> Position | None:
        last = None
        with self._journal.read() as view:
            for namespace, name, row in next_page(view, self._pods, None, after):
                last = (namespace, name)
                self._users.update(last, row.body)
        return last
