"""PV protection: a deleted volume stays while it is bound to a claim."""

from __future__ import annotations

from actors.controllers.context import ControllerContext
from actors.controllers.storage.protection import FinalizerRelease, Key
from actors.messages import Object


class VolumeProtection(FinalizerRelease):
    name = "PV protection controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "persistentvolumes", "pv-protection")
        self.observed_types = frozenset({self._protected})

    def is_in_use(self, key: Key, stored: Object) -> bool:
        return bool((stored.get("status") or {}).get("phase") == "Bound")
