"""Builds the server from its settings, runs it, and takes it down again without losing anything.

The one place that knows every part. Start: journal, committer, actors, controllers, then the doors. Stop: readyz
fails first, then (after --shutdown-delay-duration) no new connections, running requests end, the committer
drains, the journal closes.
"""

from __future__ import annotations

import signal
import ssl
from collections.abc import Callable
from contextlib import asynccontextmanager
from collections.abc import AsyncIterator

import orjson
import trio

from actors.access.authenticate import Authenticator
from actors.access.modes import authorizer
from actors.access.tokens import read_tokens
from actors.admission.chain import Admission
from actors.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from actors.clock import WallClock
from actors.committer import Committer
from actors.directory import Directory
from actors.feed import Feed
from actors.housekeeping import Housekeeping
from actors.kinds.catalog import Catalog
from actors.names import NAMES, Names
from actors.namespaces import Namespaces
from actors.resource.horizon import Horizon
from actors.resource.reads import Reads
from actors.stamps import Stamps
from actors.supervisor import Supervisor
from gateway.describe.discovery import Discovery
from gateway.dispatch import Dispatch
from gateway.errors import plain_failure
from gateway.limits import Limits
from gateway.ops.health import Health
from gateway.ops.metrics import Metrics
from gateway.paths import Paths
from gateway.pipeline import Pipeline
from gateway.request import Response
from gateway.server import Server
from gateway.settings import Settings
from journal.log import Journal
