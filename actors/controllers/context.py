"""What controllers are built from."""

from __future__ import annotations

from dataclasses import dataclass

from actors.access.accounts.tokens import TokenIssuer
from actors.access.authorize import Authorizer
from actors.admission.plugins.quota.accounts import QuotaAccounts
from actors.aggregation.context import AggregationContext
from actors.certificates.signing import Authorities
from actors.kinds.registry import Registry
from actors.names import Names
from actors.profile import DOCUMENTED, Rules
from actors.resource.directory import Directory
from actors.runtime.clock import Clock
from actors.runtime.write_context import WriteContexts
from actors.store.feed import Feed
from journal.log import Journal


@dataclass(frozen=True, slots=True)
class ControllerContext:
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
    signing_duration: float = 365 * 86400.0  # seconds for which signed certificates are valid at most
    enabled: frozenset[str] | None = None  # names of the controllers to run; None: all
    issuer: TokenIssuer | None = None  # None: token Secrets stay as they are
    quotas: QuotaAccounts | None = None  # those that admission checks; None: a controller counts for itself
    publishes_certificate: bool = False  # whether the server has a certificate that its clients verify
    event_ttl: float = 3600.0  # seconds after which Events are deleted; 0: never
    aggregation: AggregationContext | None = None  # None: APIServices lead nowhere
