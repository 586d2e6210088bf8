"""Extensions: what an embedding program, a test or another process adds to a server besides its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from rewound.actors.access.authentication.authenticate import TokenMethod
from rewound.actors.access.authorize import Authorizer
from rewound.actors.admission.plugin import Plugin
from rewound.actors.flowcontrol.leases import Holder
from rewound.actors.kinds.catalog import Catalog
from rewound.gateway.connections.limits import AcceptShare
from rewound.gateway.connections.server_state import MakeServer
from rewound.gateway.exchange import RequestObserver
from rewound.gateway.handlers.paths import CollectLevels, LevelRows
from rewound.gateway.ops.checks import AskCondition, Condition
from rewound.gateway.ops.metrics import Collect, Metrics
from rewound.gateway.pipeline.services import CatchUp, InjectFault

if TYPE_CHECKING:
    from rewound.actors.etcd.api import Etcd
    from rewound.gateway.audit.backends.remote import AuditCalls
    from rewound.gateway.pipeline.context import RequestContext
    from rewound.gateway.settings.settings import Settings
    from rewound.gateway.store import Store
    from rewound.gateway.watch.hub import Hub
    from rewound.gateway.watch.watch import Watch
    from rewound.rewind.past_reads import PastReads

# Adds paths below /debug/rewound/. Its argument is a function that takes a method, a path and a handler.
AddControls = Callable[[Callable[..., None]], None]


class Controlled(msgspec.Struct, frozen=True):
    """The parts of a server that test controls change."""

    settings: Settings
    store: Store
    hub: Hub
    past_reads: PastReads
    metrics: Metrics
    inject: Callable[[InjectFault | None], None]  # sets what injects faults into the pipeline


class InstalledControls(msgspec.Struct, frozen=True):
    add: AddControls
    watch_opened: Callable[[RequestContext, Watch], None]
    start: Callable[[], None]  # called when the pipeline is complete


InstallControls = Callable[[Controlled], InstalledControls]


class Offered(msgspec.Struct, frozen=True):
    """What one of several processes offers to the others."""

    metrics: Metrics
    levels: Callable[[], LevelRows]  # its priority levels
    condition: Callable[[], Condition]  # for health checks


class Shared(msgspec.Struct, frozen=True):
    """What the processes of a server share."""

    offer: Callable[[Offered], None]
    collect: Collect  # the metrics of all processes
    ask_condition: AskCondition | None  # of the writer process; None if that is this one
    collect_levels: CollectLevels  # the levels of all processes
    audit: AuditCalls


class Binds(msgspec.Struct, frozen=True):
    """Binds such as fd://3, of sockets with TLS and of plain ones."""

    secure: tuple[str, ...]
    plain: tuple[str, ...]


class Extensions(msgspec.Struct, frozen=True):
    token_methods: Sequence[TokenMethod] = ()  # asked about bearer tokens that the token file does not list
    authorizers: Sequence[Authorizer] = ()  # asked before those of --authorization-mode
    admission_plugins: Sequence[Plugin] = ()  # called after those of the server
    observer: RequestObserver | None = None
    add_controls: AddControls | None = None
    install_controls: InstallControls | None = None  # for --enable-test-controls and --faults
    make_server: MakeServer | None = None  # in place of those that listen
    shared: Shared | None = None  # None if this process is the whole server
    leader: str = ""  # of a standby: the server that takes writes
    binds: Binds | None = None  # open sockets, in place of the addresses in the settings
    accept_share: AcceptShare | None = None
    catch_up: CatchUp | None = None  # of the journal, with what other processes of the server have committed
    etcd: Etcd | None = None  # a client for --journal, in place of one that connects
    holder: Holder | None = None  # the share of this process in the limits of all workers
    # Source of uids and names; the server then does not depend on how long work takes either.
    random: Random | None = None
    catalog: Catalog | None = None  # of `built_in`, already compiled by another server with the same settings
    replayed: Path | None = None  # the folder or file of which this server is a replay
    isolated: bool = False  # APIServices and conversion webhooks are not called: those of a recording


NO_EXTENSIONS = Extensions()
