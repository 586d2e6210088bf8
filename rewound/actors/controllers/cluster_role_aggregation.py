"""The cluster role aggregation controller: writes the rules of aggregated cluster roles.

A ClusterRole with an aggregationRule has the rules of all cluster roles that its selectors match. The controller
applies them with every change of one of them, and replaces rules that others wrote. An aggregated role may itself be
selected by another one: the event of its change leads there.

Aggregating takes longer the more roles are selected, and every write of one triggers it. While many are written, a role
is aggregated for a tenth of the time at most, so that the cost stays in proportion to theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from rewound.actors.access.authorization.rbac.roles import aggregated_rules, selects
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.stored_objects import PAGE_SIZE, Page, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import NotFound
from rewound.actors.messages import Object
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.selectors.facts import unpack_labels
from rewound.actors.store.document import decode
from rewound.journal.records import Event
from rewound.journal.view import View

MANAGER = "clusterrole-aggregation-controller"

Labels = dict[str, str]

PAUSES = 9  # times the duration of an aggregation, until the same role is aggregated again
LONGEST_PAUSE = 2.0
FEW = 32  # roles whose rules are combined on the event loop
LABELS_AT_ONCE = 500  # compared between two checkpoints: a millisecond

_NO_RULE: Object = {}
_AGGREGATION = b'"aggregationRule":'


class ClusterRoleAggregationController:
    name = "cluster role aggregation controller"

    def __init__(self, context: ControllerContext) -> None:
        type_name = f"clusterroles.{context.names.group('rbac.authorization')}"
        self._journal = context.journal
        self._type_id = context.journal.type_id(type_name)
        self.observed_types = frozenset({self._type_id})
        self._definition = context.registry.current.storage(type_name)
        user = f"system:serviceaccount:{context.names.system_namespace}:{MANAGER}"
        self._client = Client(context.directory, context.write_contexts, user, MANAGER)
        self._labels: dict[str, Labels] = {}  # of every cluster role
        # The aggregated ones, without their rules; a large one that is not parsed yet may select any role.
        self._aggregated: dict[str, Object | None] = {}
        self._next: dict[str, float] = {}  # when a role may be aggregated again
        self.queue: WorkQueue[str] = WorkQueue()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._type_id:
                if event.removed:
                    self._observe(event.name, None, b"")
                else:
                    self._observe(event.name, unpack_labels(event.facts), event.body)

    def _observe(self, name: str, after: Labels | None, body: bytes) -> None:
        """Remember a role, and add the roles that selected it before or select it now. Parses only aggregated roles."""
        before = self._labels.pop(name, None)
        self._aggregated.pop(name, None)
        if after is not None:
            self._labels[name] = after
        if _AGGREGATION in body:
            self._remember(name, body)
        elif after is None:
            self._next.pop(name, None)
        for other, aggregated in self._aggregated.items():
            if aggregated is None or any(
                labels is not None and selects(aggregated, labels) for labels in (before, after)
            ):
                self.queue.add(other)

    def _remember(self, name: str, body: bytes) -> None:
        if len(body) > LARGE_BYTES:
            self._aggregated[name] = None
            self.queue.add(name)
        elif rule := decode(body).get("aggregationRule"):
            self._aggregated[name] = {"aggregationRule": rule}
            self.queue.add(name)

    async def catch_up(self) -> None:
        self._labels.clear()
        self._aggregated.clear()
        await take_pages(self._journal, self._type_id, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, row in page:
            self._labels[name] = unpack_labels(row.facts)
            if _AGGREGATION in row.body:
                self._remember(name, row.body)

    async def reconcile(self, key: str) -> None:
        began = trio.current_time()
        wait = self._next.get(key, began) - began
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        if await self._aggregate(key) > FEW:
            ended = trio.current_time()
            self._next[key] = ended + min(PAUSES * (ended - began), LONGEST_PAUSE)

    async def _aggregate(self, key: str) -> int:
        """Aggregate a role; returns the number of roles that were read."""
        if self._aggregated.get(key, _NO_RULE) is None:
            await self._parse_large(key)
        role = self._aggregated.get(key)
        if role is None:
            return 0
        found = await self._read([key, *sorted(await self._selected(role))])
        if not found or found[0]["metadata"]["name"] != key or not found[0].get("aggregationRule"):
            return 0
        rules = (
            await trio.to_thread.run_sync(aggregated_rules, found[0], found[1:])
            if len(found) > FEW
            else aggregated_rules(found[0], found[1:])
        )
        if rules != (found[0].get("rules") or []):
            await self._apply(key, rules)
        return len(found)

    async def _parse_large(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", key)
        if row is None:
            return  # the feed is about to report that it is gone
        role = await trio.to_thread.run_sync(decode, row.body)
        if self._aggregated.get(key, _NO_RULE) is None:
            rule = role.get("aggregationRule")
            if rule:
                self._aggregated[key] = {"aggregationRule": rule}
            else:
                del self._aggregated[key]

    async def _selected(self, role: Object) -> list[str]:
        """The names of the roles that the role selects. A change of one leads to another reconciliation."""
        found = []
        for number, (name, labels) in enumerate(list(self._labels.items()), 1):
            if selects(role, labels):
                found.append(name)
            if not number % LABELS_AT_ONCE:
                await trio.lowlevel.checkpoint()
        return found

    async def _read(self, names: Sequence[str]) -> list[Object]:
        """The roles that still exist. A change of one while they are read leads to another reconciliation."""
        found: list[Object] = []
        for first in range(0, len(names), PAGE_SIZE):
            with self._journal.read() as view:
                rows = [view.get(self._type_id, "", name) for name in names[first : first + PAGE_SIZE]]
            for row in rows:
                if row is not None and len(row.body) > LARGE_BYTES:
                    found.append(await trio.to_thread.run_sync(decode, row.body))
                elif row is not None:
                    found.append(decode(row.body))
            await trio.lowlevel.checkpoint()
        return found

    async def _apply(self, name: str, rules: list[Object]) -> None:
        """Apply the rules. An empty field is omitted, as in v1.25, and so removed if this controller wrote it."""
        wanted: Object = {
            "apiVersion": self._definition.api_version,
            "kind": self._definition.kind,
            "metadata": {"name": name},
        }
        if rules:
            wanted["rules"] = rules
        try:
            await self._client.apply(self._definition, "", name, wanted)
        except NotFound:
            return
