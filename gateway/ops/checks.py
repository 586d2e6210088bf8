"""Health checks of a server's parts, under the names that clients of its dialect look for.

In the kubernetes dialect a part reports under the names of its counterparts in kube-apiserver: the journal as etcd,
the steps of the start as post-start hooks. Names for which there is no counterpart are left out.
"""

from __future__ import annotations

import logging
from typing import Final

from actors.messages import Object
from actors.store.committer import Committer
from actors.supervisor import Supervisor
from gateway.ops.health import Health, Probe
from journal.classes.dataclass import dataclass
from journal.log import Journal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckNames:
    start: tuple[str, ...]  # each passes when the initial objects exist and the controllers run
    journal: str
    journal_reads: str = ""
    log: str = ""
    journal_component: str = "journal"
    controllers_component: str = "controllers"


CHECK_NAMES: Final = {
    "cluster": CheckNames(start=("start",), journal="journal"),
    "kubernetes": CheckNames(
        start=(
            "poststarthook/start-kube-apiserver-admission-initializer",
            "poststarthook/generic-apiserver-start-informers",
            "poststarthook/bootstrap-controller",
            "poststarthook/scheduling/bootstrap-system-priority-classes",
        ),
        journal="etcd",
        journal_reads="etcd-readiness",
        log="log",
        journal_component="etcd-0",
        controllers_component="controller-manager",
    ),
}


class Checks:
    def __init__(
        self, names: CheckNames, committer: Committer, journal: Journal, supervisor: Supervisor
    ) -> None:
        self._names = names
        self._committer = committer
        self._journal = journal
        self._supervisor = supervisor
        self._logged = ""  # the problem of the journal's files that was logged last

    def add_to(self, health: Health) -> None:
        names = self._names
        if names.log:
            health.add(names.log, log_problem)
        # livez only reads: restarting a server that still serves reads does not help when its disk is full.
        health.add(names.journal, self._write_problem, kinds=("readyz", "healthz"))
        if names.journal_reads:
            health.add(names.journal, self._read_problem, kinds=("livez",))
            health.add(names.journal_reads, self._read_problem, kinds=("readyz",))
        health.add("actors", self._task_problem)

    def component_statuses(self) -> list[Object]:
        """ComponentStatus objects as they are now."""
        names = self._names
        return [
            _component_status(names.controllers_component, self._task_problem, "ok"),
            _component_status(names.journal_component, self._write_problem, '{"health":"true","reason":""}'),
        ]

    def _write_problem(self) -> str | None:
        return self._committer.last_failure or self._file_problem() or None

    def _file_problem(self) -> str:
        problem = self._journal.check()
        if problem and problem != self._logged:
            logger.error("the journal in %s is not healthy: %s", self._journal.path, problem)
        self._logged = problem
        return problem

    def _read_problem(self) -> str | None:
        with self._journal.read():
            return None

    def _task_problem(self) -> str | None:
        return ", ".join(self._supervisor.failing()) or None


def log_problem() -> str | None:
    """A problem if log records cannot be flushed."""
    for handler in logging.getLogger().handlers:
        try:
            handler.flush()
        except (OSError, ValueError) as error:
            return f"the log cannot be written: {error}"
    return None


def _component_status(name: str, probe: Probe, message: str) -> Object:
    problem = probe()
    condition: Object = {"type": "Healthy", "status": "True" if problem is None else "False"}
    condition |= {"message": message} if problem is None else {"error": problem}
    return {"metadata": {"name": name, "creationTimestamp": None}, "conditions": [condition]}
