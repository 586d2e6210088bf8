"""The store: everything below HTTP of one server, as one value that constructors take.

`gateway.composition.open_store` builds it for a data folder. What serves requests takes the store, and keeps those of
its services that it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from actors.access.accounts.tokens import Accounts
from actors.access.authentication.authenticate import Authenticator
from actors.access.authorization.rbac.authorizer import Rbac
from actors.access.authorize import Authorizer
from actors.admission.plugin import Plugin
from actors.admission.plugins.quota.accounts import QuotaAccounts
from actors.admission.timings import Timings
from actors.aggregation.api_services import ApiServices
from actors.certificates.signing import Authorities
from actors.controllers.loop import Loop
from actors.controllers.publication import Publication
from actors.conversion.converter import Converter
from actors.kinds.registry import Registry
from actors.names import Names
from actors.profile import Rules
from actors.resource.directory import Directory
from actors.runtime.clock import Clock
from actors.runtime.supervisor import Supervisor
from actors.runtime.write_context import WriteContexts
from actors.store.committer import Commits
from actors.store.etcd.node import Node
from actors.store.feed import Feed
from actors.store.reads import Horizon, Reads
from gateway.aggregation.on_demand import ServersOnDemand
from gateway.memory.budget import MemoryBudget
from journal.log import Journal

Task = tuple[str, Callable[[], Awaitable[None]]]  # what runs while the server runs, with its name


@dataclass(frozen=True, slots=True)
class Access:
    authenticator: Authenticator
    authorizer: Authorizer
    accounts: Accounts
    rbac: Rbac  # also without the mode RBAC: writing roles and bindings needs the rights in them
    audiences: tuple[str, ...]  # of this server: of tokens that name none
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    names: Names
    rules: Rules
    clock: Clock
    memory: MemoryBudget  # what requests may hold of the memory of this process
    registry: Registry
    journal: Journal
    feed: Feed
    committer: Commits
    directory: Directory
    horizon: Horizon
    reads: Reads
    write_contexts: WriteContexts
    supervisor: Supervisor
    access: Access
    authorities: Authorities
    plugins: tuple[Plugin, ...]  # of admission, those that run
    quotas: QuotaAccounts
    admission_timings: Timings
    converter: Converter
    publication: Publication
    api_services: ApiServices
    aggregated: ServersOnDemand
    loops: list[Loop[Any]] = field(default_factory=list)  # of controllers
    node: Node | None = None  # of a cluster whose journal is ordered by etcd
