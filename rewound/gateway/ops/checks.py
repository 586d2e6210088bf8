"""Health checks of a server's parts, with the names that the rule `health` chooses (`actors.profile`).

With `kubernetes` a part reports under the name of its counterpart in kube-apiserver: the journal as etcd, tasks and
the steps of the start as post-start hooks. A hook passes when the start is finished and none of its tasks has just
crashed. The check `actors` covers all tasks, including those without a counterpart.

In a worker process the checks add the `Condition` of the process that writes, which is requested for every report:
this costs nothing between reports, and a report is never older than its request. Without it, readyz and healthz fail,
because writes do; livez passes, because reads still work and restarting the worker would not help.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol

import msgpack
import msgspec
import trio

from rewound.actors.aggregation.api_services import ApiServices
from rewound.actors.controllers.api_services import (
    AvailabilityController,
    DescriptionController,
    RegistrationController,
    TrustPublisher,
)
from rewound.actors.controllers.custom_resources import CustomResourceController
from rewound.actors.controllers.flow_control import FlowControlController
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.store.committer import Commits
from rewound.actors.store.feed import Feed
from rewound.gateway.ops.health import Health, Probe, ReportFormat
from rewound.journal.log import Journal

logger = logging.getLogger(__name__)

FLOW_CONTROL_TASK: Final = "flow control"
FEED_TASK: Final = "feed"
PLUGIN_TASK: Final = "admission plugin "  # followed by its name

_REGISTRATION: Final = "autoregister-completion"
_FAIRNESS: Final = "poststarthook/priority-and-fairness-"
# The tasks of each hook, in the order of reports; without tasks it is only a step of the start.
_HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "poststarthook/start-kube-apiserver-admission-initializer": (PLUGIN_TASK,),
    "poststarthook/generic-apiserver-start-informers": (FEED_TASK,),
    f"{_FAIRNESS}config-consumer": (FLOW_CONTROL_TASK, FEED_TASK),
    f"{_FAIRNESS}filter": (FLOW_CONTROL_TASK,),
    "poststarthook/storage-object-count-tracker-hook": (FLOW_CONTROL_TASK,),
    "poststarthook/start-apiextensions-informers": (FEED_TASK,),
    "poststarthook/start-apiextensions-controllers": (CustomResourceController.name,),
    "poststarthook/crd-informer-synced": (CustomResourceController.name, FEED_TASK),
    "poststarthook/bootstrap-controller": (),
    "poststarthook/rbac/bootstrap-roles": (),
    "poststarthook/scheduling/bootstrap-system-priority-classes": (),
    f"{_FAIRNESS}config-producer": (FlowControlController.name,),
    "poststarthook/start-cluster-authentication-info-controller": (TrustPublisher.name,),
    "poststarthook/start-kube-aggregator-informers": (FEED_TASK,),
    "poststarthook/apiservice-registration-controller": (RegistrationController.name, FEED_TASK),
    "poststarthook/apiservice-status-available-controller": (AvailabilityController.name,),
    "poststarthook/kube-apiserver-autoregistration": (RegistrationController.name,),
    _REGISTRATION: (),
    "poststarthook/apiservice-openapi-controller": (DescriptionController.name,),
    "poststarthook/apiservice-openapiv3-controller": (DescriptionController.name,),
}


class CheckNames(msgspec.Struct, frozen=True):
    format: ReportFormat
    journal: str
    journal_reads: str = ""
    log: str = ""
    informers: str = ""
    hooks: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    journal_component: str = "journal"
    journal_message: str = '{"health":"true","reason":""}'
    controllers_component: str = "controllers"


# By the value of the rule `health` (`actors.profile`).
CHECK_NAMES: Final = {
    "rewound": CheckNames(ReportFormat(passed="healthz"), journal="journal"),
    "kubernetes": CheckNames(
        ReportFormat(
            start=(),
            order=("ping", "log", "etcd", "etcd-readiness", "informer-sync", *_HOOKS, "actors", "shutdown"),
        ),
        journal="etcd",
        journal_reads="etcd-readiness",
        log="log",
        informers="informer-sync",
        hooks=_HOOKS,
        journal_component="etcd-0",
        journal_message="",
        controllers_component="controller-manager",
    ),
}


class CheckedServer(Protocol):
    """The parts of a server that health checks read."""

    @property
    def committer(self) -> Commits: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def feed(self) -> Feed: ...

    @property
    def supervisor(self) -> Supervisor: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def api_services(self) -> ApiServices: ...


class Condition(msgspec.Struct, frozen=True):
    """The state of a process, as the checks read it."""

    write_problem: str = ""
    failing: tuple[str, ...] = ()  # tasks that crashed recently
    behind: int = 0  # followers of the journal
    unregistered: str = ""  # built-in group versions without an APIService

    def encode(self) -> bytes:
        packed: bytes = msgpack.packb(msgspec.structs.astuple(self))
        return packed

    @classmethod
    def decode(cls, packed: bytes) -> Condition:
        return cls(*msgpack.unpackb(packed, use_list=False))


# Requests the encoded condition of the process that writes. Raises ConnectionError if it is not running.
AskCondition = Callable[[], Awaitable[bytes]]
ANSWER_SECONDS: Final = 1.0


class Checks:
    def __init__(
        self,
        names: CheckNames,
        parts: CheckedServer,
        *,
        fairness: bool,
        ask_writer: AskCondition | None = None,
    ) -> None:
        """`fairness`: API priority and fairness is on. `ask_writer` is for a process that does not write."""
        self._names = names
        self._parts = parts
        self._fairness = fairness
        self._ask_writer = ask_writer
        self._writer = Condition()  # condition of the process that writes, if that is another one
        self._registered = False  # every built-in group version has had an APIService
        self._logged = ""  # the last logged problem of the journal's files

    async def refresh(self) -> None:
        """Request the condition of the process that writes, if that is another one."""
        if self._ask_writer is None:
            return
        try:
            with trio.fail_after(ANSWER_SECONDS):
                self._writer = Condition.decode(await self._ask_writer())
        except trio.TooSlowError:
            self._writer = Condition("the process that writes the journal does not respond")
        except ConnectionError:
            self._writer = Condition("the process that writes the journal is being started")

    def condition(self) -> Condition:
        """The condition of this process, without that of another one."""
        return Condition(
            self._write_problem() or "",
            tuple(self._parts.supervisor.failing()),
            self._parts.feed.behind(),
            self._registration_problem() or "",
        )

    def add_to(self, health: Health) -> None:
        names = self._names
        if self._ask_writer is not None:
            health.refresh = self.refresh
        if names.log:
            health.add(names.log, log_problem)
        # livez only reads: restarting a server that still serves reads does not help if its disk is full.
        health.add(names.journal, self._write_problem, kinds=("readyz", "healthz"))
        if names.journal_reads:
            health.add(names.journal, self._read_problem, kinds=("livez",))
            health.add(names.journal_reads, self._read_problem, kinds=("readyz",))
        if names.informers:
            health.add(names.informers, self._follower_problem, kinds=("readyz",))
        for hook, tasks in names.hooks.items():
            if self._fairness or not hook.startswith(_FAIRNESS):
                probe = partial(self._hook_problem, health, hook, tasks)
                health.add(hook, probe, starting=True)
        health.add("actors", self._task_problem)

    async def component_statuses(self) -> list[Object]:
        """The current ComponentStatus objects."""
        await self.refresh()
        names = self._names
        return [
            _component_status(names.controllers_component, self._task_problem, "ok"),
            _component_status(names.journal_component, self._write_problem, names.journal_message),
        ]

    def _write_problem(self) -> str | None:
        if self._ask_writer is not None:
            return self._writer.write_problem or None
        return self._parts.committer.last_failure or self._file_problem() or None

    def _file_problem(self) -> str:
        journal = self._parts.journal
        problem = journal.check()
        if problem and problem != self._logged:
            logger.error("the journal in %s is not healthy: %s", journal.path, problem)
        self._logged = problem
        return problem

    def _read_problem(self) -> str | None:
        with self._parts.journal.read():
            return None

    def _follower_problem(self) -> str | None:
        behind = self._parts.feed.behind() + self._writer.behind
        return f"{behind} followers of the journal are behind" if behind else None

    def _hook_problem(self, health: Health, hook: str, tasks: tuple[str, ...]) -> str | None:
        if (problem := health.start_problem()) is not None:
            return problem
        if hook == _REGISTRATION:
            return self._registration_problem()
        return ", ".join(name for name in self._failing() if _is_one_of(name, tasks)) or None

    def _failing(self) -> list[str]:
        """The failing tasks of this process and of the one that writes."""
        return list(dict.fromkeys((*self._parts.supervisor.failing(), *self._writer.failing)))

    def _registration_problem(self) -> str | None:
        """The problem until each built-in group version has had its APIService; a client may delete one later."""
        if self._ask_writer is not None:
            return self._writer.unregistered or None
        if self._registered or RegistrationController.name not in self._parts.supervisor.statistics():
            return None  # a server that only reads a recording registers nothing
        missing = self._parts.api_services.unregistered(self._parts.registry.built_in.groups())
        self._registered = not missing
        return f"missing APIService: {missing}" if missing else None

    def _task_problem(self) -> str | None:
        return ", ".join(self._failing()) or None


def _is_one_of(name: str, tasks: tuple[str, ...]) -> bool:
    return any(name.startswith(task) if task == PLUGIN_TASK else name == task for task in tasks)


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
    if problem is not None:
        condition["error"] = problem
    elif message:
        condition["message"] = message
    return {"metadata": {"name": name, "creationTimestamp": None}, "conditions": [condition]}
