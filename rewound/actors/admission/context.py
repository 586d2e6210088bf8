"""The services and settings that admission plugins are built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set

import msgspec

from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorize import Authorizer
from rewound.actors.access.remote.calls import NO_CALLS, Calls
from rewound.actors.admission.configuration import NO_CONFIGURATION, AdmissionConfiguration
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.allocation.ranges import DEFAULT_RANGES, ServiceRanges
from rewound.actors.conversion.converter import Converter
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal


async def _create_no_namespace(name: str) -> None:
    """For tools and tests that create their namespaces."""


class PluginContext(msgspec.Struct, frozen=True):
    names: Names
    journal: Journal
    feed: Feed
    authorizer: Authorizer
    rbac: Rbac
    registry: Registry | None = None  # None: no version of a kind is equivalent to another one
    converter: Converter | None = None  # None: webhooks convert with their own connections
    calls: Calls = NO_CALLS
    quotas: QuotaAccounts | None = None  # None: the plugin counts for itself
    create_namespace: Callable[[str], Awaitable[None]] = _create_no_namespace
    ranges: ServiceRanges = DEFAULT_RANGES
    features: frozenset[str] = frozenset()
    configuration: AdmissionConfiguration = NO_CONFIGURATION
    rules: Rules = DOCUMENTED
    off: Set[str] = frozenset()  # names of plugins that do not run: larger ones are not even imported
    conditions: ConditionTimings = msgspec.field(default_factory=ConditionTimings)  # of webhooks and policies

    def find_kind(self, api_version: str, kind: str) -> Definition | None:
        return None if self.registry is None else self.registry.current.of_kind(api_version, kind)

    def used(self, plugin: str) -> bool:
        """Whether a plugin runs, or has a configuration to check."""
        return plugin not in self.off or self.configuration.of(plugin) is not None
