"""The issuers whose tokens are accepted, and their replacement when the file of --authentication-config changes.

A server has one `ConfiguredIssuers`: of the flags of OpenID Connect, or of the file, with up to 64 issuers. A token is
verified only by the issuer that it names.

Keys are fetched at the start, in the background: the server is ready without them, and a token that comes first waits
for them. New issuers are in force when the keys of all of them have been fetched, so that a file with a wrong URL locks
nobody out. An issuer that stays as it was keeps its keys; no verified token stays verified. A file that is wrong, or
whose issuers do not respond, changes nothing: the log says why, and metrics count it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from rewound.actors.access.authentication.authenticate import Authenticated, Refused
from rewound.actors.access.authentication.oidc import (
    FAILURE,
    PAUSE,
    SUCCESS,
    OidcTokens,
    Provider,
    unverified_issuer,
)
from rewound.actors.access.authentication.oidc_claims import GOOGLE, GOOGLE_BARE, ClaimRules
from rewound.actors.access.authorization.statistics import Durations
from rewound.actors.runtime.followed_file import Reloads, follow_file

logger = logging.getLogger(__name__)

READY_SECONDS: Final = 60.0  # that new issuers have to respond, and from then to the next attempt
MAX_REMEMBERED: Final = 1000  # issuers in metrics; a file that changes all the time could name ever more


class InvalidConfiguration(ValueError):
    """The configuration cannot be used; the text is that of Kubernetes."""


@dataclass(frozen=True, slots=True)
class IssuerConfiguration:
    rules: ClaimRules
    discovery_url: str = ""  # empty: the well-known path below the URL of the issuer
    authorities: Path | bytes | None = None  # in PEM form; None: those of the system


@dataclass(frozen=True, slots=True)
class Anonymous:
    enabled: bool
    paths: frozenset[str] = frozenset()  # the only ones for anonymous requests; empty: all


@dataclass(frozen=True, slots=True)
class AuthenticationConfiguration:
    issuers: tuple[IssuerConfiguration, ...] = ()
    anonymous: Anonymous | None = None  # None: the flag decides


MakeProvider = Callable[[IssuerConfiguration], Provider]
MakeTokens = Callable[[IssuerConfiguration, Provider], OidcTokens]


class ConfiguredIssuers:
    def __init__(
        self, configuration: AuthenticationConfiguration, provider: MakeProvider, tokens: MakeTokens
    ) -> None:
        self._make_provider, self._make_tokens = provider, tokens
        self._latencies: dict[str, dict[str, Durations]] = {}  # by issuer and result
        self._providers: dict[tuple[str, str, object], Provider] = {}
        self.reloads: Reloads | None = None  # of the file; None without one
        self._put_in_force(configuration, self._providers_of(configuration))

    def authenticate(
        self, token: bytes, audiences: tuple[str, ...]
    ) -> Authenticated | Awaitable[Authenticated | Refused] | None:
        if self._only is not None:
            return self._only.authenticate(token, audiences)
        method = self._methods.get(unverified_issuer(token)) if self._methods else None
        return None if method is None else method.authenticate(token, audiences)

    async def replace(self, configuration: AuthenticationConfiguration) -> str:
        """Put a configuration in force when all its issuers are ready. Returns why not, if they are not in time."""
        providers = self._providers_of(configuration)
        with trio.move_on_after(READY_SECONDS):
            for provider in providers.values():
                while not provider.fetches and not await provider.refresh(0):
                    await trio.sleep(PAUSE)
        for provider in providers.values():
            if not provider.fetches:
                why = (
                    provider.problem
                    or f'oidc: authenticator for issuer "{provider.issuer}" is not initialized'
                )
                return f'oidc: authenticator for issuer "{provider.issuer}" is not healthy: {why}'
        self._put_in_force(configuration, providers)
        return ""

    async def fetch_keys(self) -> None:
        """Fetch the keys of the issuers that are in force at the start, each until it has responded once."""
        async with trio.open_nursery() as nursery:
            for key, provider in self._providers.items():
                nursery.start_soon(self._fetch_first, key, provider)

    async def _fetch_first(self, key: tuple[str, str, object], provider: Provider) -> None:
        while self._providers.get(key) is provider and not await provider.refresh(0):
            await trio.sleep(PAUSE)

    def _providers_of(
        self, configuration: AuthenticationConfiguration
    ) -> dict[tuple[str, str, object], Provider]:
        keys = [(one.rules.issuer, one.discovery_url, one.authorities) for one in configuration.issuers]
        return {
            key: self._providers.get(key) or self._make_provider(one)
            for key, one in zip(keys, configuration.issuers, strict=True)
        }

    def _put_in_force(
        self, configuration: AuthenticationConfiguration, providers: dict[tuple[str, str, object], Provider]
    ) -> None:
        self._providers = providers
        self._methods: dict[str | None, OidcTokens] = {}
        for one, provider in zip(configuration.issuers, providers.values(), strict=True):
            url = one.rules.issuer
            if len(self._latencies) >= MAX_REMEMBERED:
                self._latencies.clear()
            method = self._make_tokens(one, provider)
            method.latencies = self._latencies.setdefault(url, {})
            self._methods[url] = method
            if url == GOOGLE:
                self._methods[GOOGLE_BARE] = method
        self._only = next(iter(self._methods.values())) if len(configuration.issuers) == 1 else None

    # What metrics report.

    def latencies(self) -> dict[tuple[str, str], Durations]:
        """The durations of verifications by result and issuer."""
        return {
            (result, issuer): durations
            for issuer, of_issuer in self._latencies.items()
            for result, durations in of_issuer.items()
        }

    def key_fetches(self) -> dict[tuple[str, str], float]:
        """When keys were last fetched, by result and issuer, in seconds since 1970."""
        return {
            (result, one.issuer): when
            for one in self._providers.values()
            for result, when in one.last.items()
        }

    def key_sets(self) -> dict[str, str]:
        """The hash of the keys of each issuer."""
        return {one.issuer: one.key_set_hash for one in self._providers.values() if one.key_set_hash}


class FollowedConfiguration:
    """The file of --authentication-config: reads it again when it changes."""

    def __init__(
        self,
        path: Path,
        contents: bytes,
        read: Callable[[bytes], AuthenticationConfiguration],
        issuers: ConfiguredIssuers,
        now: Callable[[], float],
    ) -> None:
        """`contents` are those in force; `read` raises ValueError for wrong ones; `now` is in seconds since 1970."""
        self._path, self._newest, self._read, self._issuers, self._now = path, contents, read, issuers, now
        self._anonymous = read(contents).anonymous
        self._arrived = trio.Event()
        self.reloads = issuers.reloads = Reloads()
        self.reloads.applied(contents)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_file, self._path, self._newest, self._changed, self._unreadable)
            while True:
                await self._arrived.wait()
                self._arrived = trio.Event()
                await self._apply(self._newest)

    async def _changed(self, contents: bytes) -> None:
        self._newest = contents
        self._arrived.set()

    def _unreadable(self, error: OSError) -> None:
        self._failed("failed to read authentication config file", error)

    def _failed(self, what: str, why: object) -> None:
        logger.error("%s: %s", what, why)
        self.reloads.count(FAILURE, self._now())

    async def _apply(self, contents: bytes) -> None:
        """Put the contents in force. Issuers that do not respond are tried again until the file changes."""
        try:
            configuration = await trio.to_thread.run_sync(self._read, contents)
            if configuration.anonymous != self._anonymous:
                raise InvalidConfiguration("anonymous: Forbidden: changed from initial configuration file")
        except InvalidConfiguration as error:
            self._failed("failed to validate authentication config", error)
            return
        except ValueError as error:
            self._failed("failed to load authentication config", error)
            return
        while why := await self._issuers.replace(configuration):
            self._failed("failed to update authentication config", why)
            with trio.move_on_after(READY_SECONDS):
                await self._arrived.wait()
                return
        self.reloads.applied(contents)
        self.reloads.count(SUCCESS, self._now())
        logger.info("reloaded authentication config")
