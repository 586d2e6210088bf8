"""A cluster without HTTP for the tests of workload controllers: a store, chosen controllers and pods that run, in
virtual time.

    async with open_bench(tmp_path, "deployment", "replicaset") as bench:
        await bench.create("deployments.apps", deployment("web", 3))
        await bench.rest()
        assert bench.get("deployments.apps", "web")["status"]["readyReplicas"] == 3

Tests take the fixture `autojump_clock`. `rest` returns when all tasks wait, `rest(60)` first lets a minute pass. A
seed determines random values, so each run has the same names and the same order. To restart the server, leave the
context and enter a new one on the same folder. All names are those of the dialect `kubernetes`.

`PodRunner` binds pods, those of a DaemonSet to their node, and plays kubelet: a bound pod is Running and Ready at once,
a deleted one goes at once. The annotation `sim/phase` of a pod says otherwise: NeverReady, Hold (stays Pending),
Succeeded or Failed; `sim/hold-termination` keeps a deleted pod.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.built_in import plugins
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.admission.selection import AVAILABLE
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.certificates.signing import Authorities
from rewound.actors.controllers.built_in import controllers
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Command, DeleteOptions, Object, Outcome
from rewound.actors.names import KUBERNETES
from rewound.actors.profile import V1_25, choose_rules
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import LargeWork
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.committer import Committer, UnmeasuredDisk
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import V1_25 as FIRST_RELEASE
from rewound.actors.versions.features import Release
from rewound.actors.workloads.built_in import BY_NAME, Build, Workloads
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.daemonsets import target_node
from rewound.actors.workloads.pods import is_terminating
from rewound.gateway.settings.settings import CONTROLLERS
from rewound.journal.log import Journal
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.controllers.control_plane import VirtualClock

# Plugins that add to workloads what their controllers need; webhooks and accounts would need more than a bench has.
PLUGINS = (
    *("NamespaceLifecycle", "LimitRanger", "Priority", "DefaultTolerationSeconds", "DefaultStorageClass"),
    *("StorageObjectInUseProtection", "TaintNodesByCondition", "ResourceQuota"),
    *("NodeDeclaredFeatureValidator", "PodGroupProtection", "PodGroupWorkloadExists"),
)

Before = Callable[[Definition, Command], Awaitable[None] | None]


@cache
def _catalog(release: Release) -> Catalog:
    return built_in(KUBERNETES, release)


class WatchedDirectory(Directory):
    """Records commands; `before` is called with each, and may wait or raise."""

    def __init__(self, *args: Any, before: Before | None) -> None:
        super().__init__(*args)
        self.commands: list[tuple[str, str]] = []  # the last part of the user's name, and the type
        self.before = before

    async def ask(self, definition: Definition, command: Command) -> Outcome:
        self.commands.append((command.context.user.rpartition(":")[2], definition.plural))
        if self.before is not None and (waiting := self.before(definition, command)) is not None:
            await waiting
        return await super().ask(definition, command)


class PodRunner(WorkloadController):
    name, account = "kubelet", "kubelet"
    nodes = ("n1", "n2", "n3")

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._pods = self.keyed_by("pods")
        self._bound = 0

    async def reconcile(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None:
            return
        try:
            await self._move(key, pod)
        except (Conflict, NotFound):
            pass  # its change adds the key again

    async def _move(self, key: Key, pod: Object) -> None:
        wanted = pod["metadata"].get("annotations") or {}
        if is_terminating(pod):
            if not wanted.get("sim/hold-termination"):
                options = DeleteOptions(uid=pod["metadata"]["uid"], grace_period_seconds=0)
                await self.client.delete(self._pods.definition, *key, options)
        elif "nodeName" not in pod["spec"]:
            self._bound += 1
            node = target_node(pod) or self.nodes[self._bound % len(self.nodes)]
            target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": key[1]}}
            await self.client.submit(self._pods.definition, *key, "binding", target)
        else:
            await self._report(key, pod, wanted.get("sim/phase", "Running"))

    async def _report(self, key: Key, pod: Object, wanted: str) -> None:
        if wanted == "Hold":
            return
        phase = "Running" if wanted == "NeverReady" else wanted
        ready = "True" if wanted == "Running" else "False"
        conditions = pod["status"].get("conditions") or []
        current = next((one["status"] for one in conditions if one["type"] == "Ready"), "")
        if (pod["status"].get("phase"), current) == (phase, ready):
            return
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": self.now_text()}
        status = {"phase": phase, "conditions": [condition]}
        await self.client.patch(self._pods.definition, *key, {"status": status}, "strategic", "status")


class Bench:
    def __init__(
        self,
        journal: Journal,
        nursery: trio.Nursery,
        names: frozenset[str],
        before: Before | None = None,
        release: Release = FIRST_RELEASE,
        workloads: WorkloadOptions | None = None,
    ) -> None:
        self.journal = journal
        self.catalog = _catalog(release)
        journal.register_types(self.catalog.stored_types())
        self.feed = Feed(journal.head, journal)
        self.supervisor = Supervisor()
        self.clock = VirtualClock()
        # The number of changes so far, so that a restarted server generates new names.
        self.write_contexts = WriteContexts(self.clock, random.Random(journal.head))
        rules = choose_rules(KUBERNETES.dialect, V1_25, "")
        quotas = QuotaAccounts(KUBERNETES, journal, self.feed)
        authorizer = AlwaysAllow()
        off = frozenset(AVAILABLE).difference(PLUGINS)
        chosen = PluginContext(
            KUBERNETES,
            journal,
            self.feed,
            authorizer,
            Rbac(stored_policy(KUBERNETES, journal, self.feed)),
            quotas=quotas,
            rules=rules,
            off=off,
            features=release.features,
        )
        admission = Admission([one for one in plugins(chosen) if one.name not in off])
        committer = Committer(journal, self.feed, UnmeasuredDisk())  # `rest` does not wait for threads
        nursery.start_soon(committer.run)
        self.registry = Registry(self.catalog, committer.register_types)
        shared = ActorContext(journal, committer, admission, AdmissionCalls(), LargeWork(), nursery)
        self.directory = WatchedDirectory(self.registry, self.supervisor, nursery, shared, before=before)
        self.client = Client(self.directory, self.write_contexts, "tester")
        self.context = ControllerContext(
            KUBERNETES,
            self.registry,
            journal,
            self.feed,
            self.directory,
            self.write_contexts,
            self.clock,
            authorizer,
            Authorities(partial(own_certificates, KUBERNETES.dialect)),
            rules,
            release=release,
            enabled=names,
            quotas=quotas,
            workloads=workloads or WorkloadOptions(),
            is_short_of_memory=lambda: self.is_short_of_memory,
        )
        self.is_short_of_memory = False
        self._nursery = nursery

    async def start(self, more: Iterable[tuple[str, Build]], *, rests: bool = True) -> None:
        await Bootstrap(
            KUBERNETES, self.catalog, self.journal, self.directory, self.write_contexts
        ).create_namespaces()
        self.workloads = Workloads(self.context, more)
        loops = controllers(self.context)
        for name, run in (*((loop.name, loop.run) for loop in loops), *self.workloads.tasks):
            self._nursery.start_soon(self.supervisor.keep, name, run)
        if rests:
            await self.rest()

    async def rest(self, seconds: float = 0) -> None:
        """Let some time pass, then wait until all tasks wait."""
        await trio.sleep(seconds)
        await wait_all_tasks_blocked()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for work in threads too, for which `rest` does not wait; the time limit of tests bounds it."""
        while True:
            if condition():
                return
            await trio.sleep(0.01)

    def kill_before(self, number: int, user: str) -> None:
        """End the server when this user is about to write for the n-th time: the context ends there."""
        left = number

        def count(_: Definition, command: Command) -> None:
            nonlocal left
            left -= command.context.user.endswith(user)
            if not left:
                self._nursery.cancel_scope.cancel()

        self.directory.before = count

    async def create(self, type_name: str, new: Object, namespace: str = "default") -> Object:
        definition = self.catalog.storage(type_name)
        decoded = definition.schema.decode_object(new).object
        return decode(
            await self.client.create(definition, namespace if definition.namespaced else "", decoded)
        )

    async def patch(
        self, type_name: str, name: str, patch: Object, subresource: str = "", namespace: str = "default"
    ) -> Object:
        """Send a merge patch."""
        definition = self.catalog.storage(type_name)
        where = namespace if definition.namespaced else ""
        return decode(await self.client.patch(definition, where, name, patch, "merge", subresource))

    async def delete(
        self,
        type_name: str,
        name: str,
        policy: str = "Background",
        namespace: str = "default",
        grace: int | None = None,
    ) -> None:
        definition = self.catalog.storage(type_name)
        where = namespace if definition.namespaced else ""
        options = DeleteOptions(propagation_policy=policy, grace_period_seconds=grace)
        await self.client.delete(definition, where, name, options)

    def find(self, type_name: str, name: str, namespace: str = "default") -> Object | None:
        where = namespace if self.catalog.storage(type_name).namespaced else ""
        with self.journal.read() as view:
            row = view.get(self.journal.type_id(type_name), where, name)
        return decode(row.body) if row is not None else None

    def get(self, type_name: str, name: str, namespace: str = "default") -> Object:
        found = self.find(type_name, name, namespace)
        assert found is not None, f"there is no {type_name} {name}"
        return found

    def all(self, type_name: str, namespace: str | None = "default") -> list[Object]:
        """Sorted by name."""
        with self.journal.read() as view:
            rows = view.rows(self.journal.type_id(type_name), namespace)
            return [decode(row.body) for _, _, row in rows]

    def names(self, type_name: str, namespace: str | None = "default") -> list[str]:
        return [one["metadata"]["name"] for one in self.all(type_name, namespace)]

    def events(self, name: str | None = None) -> list[tuple[str, str]]:
        """Reason and message of all Events, or of those about the object of this name, oldest first."""
        found = sorted(self.all("events"), key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [
            (one["reason"], one["message"])
            for one in found
            if name is None or one["involvedObject"]["name"] == name
        ]


@asynccontextmanager
async def open_bench(
    path: Path,
    *names: str,
    pods_run: bool = True,
    more: Iterable[tuple[str, Build]] = (),
    before: Before | None = None,
    release: Release = FIRST_RELEASE,
    workloads: WorkloadOptions | None = None,
    rests: bool = True,
) -> AsyncIterator[Bench]:
    """Open a bench with these controllers, of an API server or of workloads; `more` are additional ones.

    `rests`: wait until all have finished their work at the start.

    `before` is called before each command reaches its actor, and awaited: one that never returns is a kill.
    """
    added = [*more, *([(PodRunner.name, PodRunner)] if pods_run else [])]
    enabled = frozenset((*names, *(name for name, _ in added)))
    journal = Journal.open(path / "journal", dialect=KUBERNETES.dialect, kubernetes=release.record)
    try:
        async with trio.open_nursery() as nursery:
            bench = Bench(journal, nursery, enabled, before, release, workloads)
            unknown = set(names).difference(CONTROLLERS, BY_NAME)
            assert not unknown, f"no such controllers: {unknown}"
            await bench.start(added, rests=rests)
            yield bench
            nursery.cancel_scope.cancel()
    finally:
        journal.close()
    restarts = {task.name: task.failing for task in bench.supervisor.statistics().values() if task.restarts}
    assert not restarts, f"crashed: {restarts}"


def pod_template(labels: dict[str, str], image: str = "web:1", **annotations: str) -> Object:
    """A template with one container; keywords become annotations `sim/...`."""
    metadata: Object = {"labels": labels}
    if annotations:
        metadata["annotations"] = {
            f"sim/{name.replace('_', '-')}": value for name, value in annotations.items()
        }
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": image}]}}
