"""The services and settings that controllers are built from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rewound.actors.access.accounts.tokens import TokenIssuer
from rewound.actors.access.authorize import Authorizer
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.aggregation.context import AggregationContext
from rewound.actors.allocation.ranges import DEFAULT_RANGES
from rewound.actors.certificates.signing import Authorities
from rewound.actors.controllers.options import WorkloadOptions
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.clock import Clock
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import V1_25, Release
from rewound.journal.log import Journal


class ControllerContext(msgspec.Struct, frozen=True):
    names: Names
    registry: Registry
    journal: Journal
    feed: Feed
    directory: Directory
    write_contexts: WriteContexts
    clock: Clock
    authorizer: Authorizer
    authorities: Authorities
    rules: Rules = DOCUMENTED
    release: Release = V1_25
    signing_duration: float = 365 * 86400.0  # maximum validity of signed certificates in seconds
    enabled: frozenset[str] | None = None  # names of the controllers to run; None: all
    issuer: TokenIssuer | None = None  # None: token Secrets are not filled
    # The accounts that admission checks; None: a controller counts for itself.
    quotas: QuotaAccounts | None = None
    publishes_certificate: bool = False  # whether the server has a certificate for its clients to verify
    networks: tuple[str, ...] = DEFAULT_RANGES.networks  # of ClusterIPs, as the flags give them
    event_ttl: float = 3600.0  # seconds after which Events are deleted; 0: never
    aggregation: AggregationContext | None = None  # None: no aggregation
    whole_cluster: bool = False  # whether all controllers were chosen, so that nobody else tracks nodes
    is_short_of_memory: Callable[[], bool] = lambda: False
    authorizes_nodes: bool = False  # whether simulated nodes may do only what `authorizer` allows nodes
    workloads: WorkloadOptions = msgspec.field(default_factory=WorkloadOptions)
    clock_jumps: bool = (
        False  # a clock that tests move: a late timer does not mean that the process got no CPU
    )

    @property
    def features(self) -> frozenset[str]:
        return self.release.features
