"""`Store`: everything below HTTP of one server, as one value that constructors take.

`server.open_store` builds it for a data folder. Handlers take it and keep the services that they need.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from rewound.actors.access.accounts.tokens import Accounts
from rewound.actors.access.authentication.authenticate import Authenticator
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.statistics import AuthorizationStatistics
from rewound.actors.access.authorize import Authorizer
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.admission.timings import Timings
from rewound.actors.aggregation.api_services import ApiServices
from rewound.actors.certificates.signing import Authorities
from rewound.actors.controllers.loop import Loop
from rewound.actors.controllers.publication import Publication
from rewound.actors.conversion.converter import Converter
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names
from rewound.actors.profile import Rules
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.committer import Commits
from rewound.actors.store.feed import Feed
from rewound.actors.store.reads import Horizon, Reads
from rewound.actors.versions.features import Release
from rewound.gateway.aggregation.on_demand import ServersOnDemand
from rewound.gateway.memory.budget import MemoryBudget
from rewound.journal.log import Journal

if TYPE_CHECKING:
    from rewound.actors.access.authentication.issuers import ConfiguredIssuers
    from rewound.actors.runtime.followed_file import FollowedFiles
    from rewound.actors.store.etcd.etcd_node import Node
    from rewound.actors.workloads.simulated_metrics import SimulatedMetrics

Task = tuple[str, Callable[[], Awaitable[None]]]  # name and function of a background task


class Access(msgspec.Struct, frozen=True):
    authenticator: Authenticator
    authorizer: Authorizer
    accounts: Accounts
    rbac: Rbac  # also without mode RBAC: writers of roles and bindings must have the rights in them
    audiences: tuple[str, ...]  # of this server; the default audiences of tokens
    authorization: AuthorizationStatistics
    authorizes_nodes: bool  # by the mode Node
    tasks: tuple[Task, ...] = ()
    issuers: ConfiguredIssuers | None = None  # identity providers, if there are any
    files: tuple[FollowedFiles, ...] = ()  # that tasks follow


class Store(msgspec.Struct, frozen=True):
    names: Names
    rules: Rules
    release: Release
    clock: Clock
    memory: MemoryBudget  # for requests
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
    plugins: tuple[Plugin, ...]  # admission plugins that are enabled
    quotas: QuotaAccounts
    admission_timings: Timings
    converter: Converter
    publication: Publication
    api_services: ApiServices
    aggregated: ServersOnDemand
    loops: list[Loop[Any]] = msgspec.field(default_factory=list)  # of controllers
    simulated_metrics: SimulatedMetrics | None = None  # None: pods are not simulated
    node: Node | None = None  # set if etcd orders the journal
