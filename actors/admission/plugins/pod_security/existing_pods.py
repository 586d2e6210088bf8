"""PodSecurity for a namespace that gets a stricter level: warns about existing pods that violate it.

Nothing happens to these pods; the warnings tell an administrator what would not start again. At most 3,000 pods are
evaluated, and for at most a second: first the pods without a controller and one pod of each controller, then the
others. The work runs in a task of its own, in turns; the namespace itself is changed when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from actors.admission.plugin import Admitted, AsyncPlugin, rule
from actors.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from actors.admission.plugins.pod_security.namespace_policies import NAMESPACES
from actors.admission.plugins.pod_security.namespaces import policy_of
from actors.admission.plugins.pod_security.policy import LevelVersion, PolicyLabels, is_tightened
from actors.admission.plugins.pod_security.standards import Standards, evaluated, reasons
from actors.admission.request import UPDATE, AdmissionRequest
from actors.large_work import LARGE_BYTES
from actors.selectors.facts import has_owners, unpack_uids
from actors.store.document import decode
from actors.turns import Turn
from journal.log import Journal
from journal.records import Row

MAX_PODS: Final = 3000
MAX_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Offenders:
    """The pods that violate a level for the same reasons."""

    first: str  # in the order of names
    count: int = 0


@dataclass(slots=True)
class _Candidates:
    """The pods of a namespace in the order in which they are evaluated."""

    unique: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # of controllers that have a pod in `unique`
    controllers: set[str] = field(default_factory=set)

    def add(self, name: str, row: Row) -> None:
        controller = _controller(row)
        if controller and controller in self.controllers:
            self.others.append(name)
            return
        self.controllers.add(controller)
        self.unique.append(name)


class PodSecurityOfExistingPods(AsyncPlugin):
    name = "PodSecurity"
    validates = (rule(UPDATE, of=(NAMESPACES,)),)

    def __init__(
        self,
        journal: Journal,
        labels: PolicyLabels,
        standards: Standards,
        configuration: PodSecurityConfiguration,
        max_pods: int = MAX_PODS,
    ) -> None:
        self._journal = journal
        self._pods = journal.type_id("pods")
        self._labels = labels
        self._standards = standards
        self._configuration = configuration
        self._max_pods = max_pods

    def concerns(self, request: AdmissionRequest) -> bool:
        new, old = request.object, request.old
        assert new is not None and old is not None
        if new["metadata"].get("labels") == old["metadata"].get("labels"):
            return False
        if request.name in self._configuration.exempt_namespaces:
            return False
        enforce = policy_of(self._labels, new).policy.enforce
        return is_tightened(enforce, policy_of(self._labels, old).policy.enforce)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None
        enforce = policy_of(self._labels, request.object).policy.enforce
        return Admitted(warnings=tuple(await self._warnings(request.name, enforce)))

    async def _warnings(self, namespace: str, enforce: LevelVersion) -> list[str]:
        deadline = trio.current_time() + MAX_SECONDS
        names = await self._candidates(namespace)
        offenders: dict[str, _Offenders] = {}
        checked = await self._evaluate(namespace, names[: self._max_pods], enforce, offenders, deadline)
        warnings = []
        if checked < len(names):
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {checked} of {len(names)} "
                "existing pods"
            )
        if offenders:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
            )
        return [*warnings, *sorted(_described(one, why) for why, one in offenders.items())]

    async def _candidates(self, namespace: str) -> list[str]:
        """Reads the names in turns; each turn has a read transaction of its own."""
        found = _Candidates()
        after: tuple[str, str] | None = None
        while True:
            turn = Turn()
            with self._journal.read() as view:
                for key, name, row in view.rows(self._pods, namespace, after):
                    after = (key, name)
                    if not self._is_exempt(row):
                        found.add(name, row)
                    if turn.over():
                        break
                else:
                    return [*found.unique, *found.others]
            await trio.lowlevel.checkpoint()

    def _is_exempt(self, row: Row) -> bool:
        exempt = self._configuration.exempt_runtime_classes
        if not exempt or b'"runtimeClassName":' not in row.body:
            return False
        return decode(row.body)["spec"].get("runtimeClassName") in exempt

    async def _evaluate(
        self,
        namespace: str,
        names: Sequence[str],
        enforce: LevelVersion,
        offenders: dict[str, _Offenders],
        deadline: float,
    ) -> int:
        """Returns how many pods it evaluated before the deadline, at least one."""
        turn = Turn()
        for index, name in enumerate(names, 1):
            why = await self._reasons(namespace, name, enforce)
            if why:
                one = offenders.setdefault(why, _Offenders(name))
                one.first = min(one.first, name)
                one.count += 1
            if trio.current_time() >= deadline:
                return index
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()
        return len(names)

    async def _reasons(self, namespace: str, name: str, enforce: LevelVersion) -> str:
        with self._journal.read() as view:
            row = view.get(self._pods, namespace, name)
        if row is None:
            return ""  # deleted meanwhile
        if len(row.body) < LARGE_BYTES:
            return self._reasons_of(row.body, enforce)
        return await trio.to_thread.run_sync(self._reasons_of, row.body, enforce)

    def _reasons_of(self, body: bytes, enforce: LevelVersion) -> str:
        return reasons(self._standards.violations(enforce, evaluated(decode(body))))


def _controller(row: Row) -> str:
    """The uid of the owner, if an owner is a controller: a pod with one usually has no other owner."""
    if not has_owners(row.facts) or b'"controller":true' not in row.body:
        return ""
    return unpack_uids(row.facts)[1][0]


def _described(offenders: _Offenders, why: str) -> str:
    others = offenders.count - 1
    if not others:
        return f"{offenders.first}: {why}"
    return f"{offenders.first} (and {others} other {'pod' if others == 1 else 'pods'}): {why}"
