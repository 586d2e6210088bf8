"""Runs a standby: a server that copies the journal of its leader, and only reads it.

The first start follows the leader until it has everything, later ones serve what they have at once. It has no
controllers, initial objects and retention: their writes come from the leader. It calls conversion webhooks and
aggregated servers as the leader does. A leader that cannot be reached does not stop it: /readyz fails when it has been
behind for too long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import trio

from rewound.actors.runtime.clock import Clock
from rewound.actors.store.housekeeping import Housekeeping
from rewound.actors.versions.version import stored_version
from rewound.client.credentials import TokenFile
from rewound.client.errors import ClientError
from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target, checked_url, without_credentials
from rewound.cluster.standby.follower import Follower
from rewound.cluster.standby.sinks import StandbySink
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Addresses, Settings, StandbySettings
from rewound.gateway.store import Store
from rewound.journal.log import Journal
from rewound.server.api_server import ApiServer
from rewound.server.data_folder import CreatedPaths, warn_of_readable_files
from rewound.server.extensions import Extensions
from rewound.server.open_store import memory_budget, read_only_store

CHECK = "standby"  # of /readyz


async def run_standby(
    settings: Settings,
    announce: Callable[[Addresses], None],
    stop: trio.Event,
    clock: Clock,
    extensions: Extensions,
    opened_store: Callable[[Store], None] | None,
) -> None:
    """Serve until `stop` is set. Raises CannotFollow if it can no longer follow its leader."""
    created = CreatedPaths(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx would log each connection too
    target = leader_target(settings.standby)
    session, copy = StreamingSession(target), StandbySink(settings.journal, target.server)
    follower = Follower(session, copy)
    try:
        async with trio.open_nursery() as nursery:
            begun = follower.caught_up if copy.is_new else copy.complete
            nursery.start_soon(_follow, follower)
            if await _can_be_served(begun, stop):
                settings = _of_leader(settings, copy.journal)
                copy.is_served = True
                await _serve(settings, announce, stop, clock, extensions, opened_store, follower, copy)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await session.aclose()
        if not copy.is_new:
            created.keep()  # the next start goes on with it
        created.remove()
        copy.close()


def _of_leader(settings: Settings, journal: Journal) -> Settings:
    """The settings with the dialect and the version of the leader. Raises SettingsError if flags say another one."""
    version, asked = stored_version(journal.kubernetes), settings.kubernetes_version
    if asked not in ("", version):
        raise SettingsError(
            "--kubernetes-version", f"the leader is Kubernetes {version}, and so is its standby; leave it out"
        )
    return replace(settings, dialect=journal.dialect, kubernetes_version=version)


async def _follow(follower: Follower) -> None:
    try:
        await follower.run()
    except ClientError as error:
        raise SettingsError("--follow", str(error)) from error


async def _can_be_served(begun: trio.Event, stop: trio.Event) -> bool:
    """Wait until the journal can be served; returns False if the server is to stop before that."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait, stop)
        nursery.start_soon(wait, begun)
    return not stop.is_set()


async def _serve(
    settings: Settings,
    announce: Callable[[Addresses], None],
    stop: trio.Event,
    clock: Clock,
    extensions: Extensions,
    opened_store: Callable[[Store], None] | None,
    follower: Follower,
    copy: StandbySink,
) -> None:
    extensions = msgspec.structs.replace(extensions, leader=follower.leader)
    async with trio.open_nursery() as nursery:
        store = read_only_store(
            settings, copy.journal, clock, memory_budget(settings), nursery, extensions, calls_out=True
        )
        copy.publish = store.feed.publish  # without a checkpoint, so that no commit is missed
        housekeeping = Housekeeping(
            store.journal,
            store.committer,
            clock,
            None,
            lambda: follower.status.leader_floor,
            settings.thinning,
        )
        nursery.start_soon(store.supervisor.keep, "housekeeping", housekeeping.run)
        try:
            server = ApiServer(settings, store, nursery, extensions)
            server.health.add(
                CHECK, partial(_problem, follower, settings.standby.follow_max_lag), kinds=("readyz",)
            )
            _meter(server, follower)
            addresses = await nursery.start(server.serve)
            warn_of_readable_files(settings)
            server.health.finish_start()
            if opened_store is not None:
                opened_store(store)
            announce(addresses)
            await server.serve_until(stop)
            nursery.cancel_scope.cancel()
        finally:
            store.aggregated.close()


def leader_target(settings: StandbySettings) -> Target:
    """How to reach the leader. Raises SettingsError if the kubeconfig or token file cannot be used."""
    try:
        if settings.follow_kubeconfig is not None:
            return load_target(
                Overrides(
                    kubeconfig=settings.follow_kubeconfig,
                    server=settings.follow,
                    certificate_authority=settings.follow_certificate_authority,
                )
            )
        assert settings.follow_token_file is not None, "the settings require one of the two"
        authority = settings.follow_certificate_authority
        return Target(
            server=without_credentials(checked_url(settings.follow, "--follow")),
            credentials=TokenFile(settings.follow_token_file, "--follow-token-file", None),
            configured_in="--follow",
            authority=None if authority is None else authority.read_bytes(),
        )
    except ClientError as error:
        raise SettingsError("--follow", str(error)) from error


def _problem(follower: Follower, longest: float) -> str | None:
    events, seconds = follower.lag()
    status = follower.status
    if seconds <= longest and follower.caught_up.is_set():
        return None
    why = f": {status.problem}" if status.problem else ""
    return f"{events} events behind {follower.leader}, for {seconds:.0f} s{why}"


def _meter(server: ApiServer, follower: Follower) -> None:
    metrics, status = server.metrics, follower.status
    metrics.gauge(
        "rewound_standby_connected",
        "Whether the stream of the leader is open.",
        lambda: int(status.connected),
    )
    metrics.gauge(
        "rewound_standby_lag_events",
        "Events of the leader that are not here yet, as far as it is known.",
        lambda: follower.lag()[0],
    )
    metrics.gauge(
        "rewound_standby_lag_seconds",
        "For how long it has been behind or disconnected; 0 if it is neither.",
        lambda: follower.lag()[1],
    )
    metrics.counter(
        "rewound_standby_connections_total",
        "Streams of the leader that were begun.",
        lambda: status.connections,
    )
    metrics.counter(
        "rewound_standby_damaged_total",
        "Streams that ended because bytes were not what the leader sent.",
        lambda: status.damaged,
    )
