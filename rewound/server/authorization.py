"""Builds the authorization of one server, from the flags of authorization or from the file of --authorization-config.

Before all authorizers, system:masters may do everything: no role, file or webhook can lock operators out. The file is
read again when it changes: a wrong one keeps the configuration in force, as Kubernetes does, and so does one that adds
Node, RBAC or ABAC, or that leaves out a type, except Webhook, that it had at the start. Requests that wait for a
webhook at that moment are decided by the configuration that they began with.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import trio

from rewound.actors.access.authorization.chain import (
    AlwaysAllow,
    AlwaysDeny,
    AuthorizerChain,
    SystemMasters,
)
from rewound.actors.access.authorization.modes import (
    WEBHOOK,
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    WebhookConfiguration,
    of_flags,
)
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.statistics import AuthorizationStatistics
from rewound.actors.access.authorize import Authorizer
from rewound.actors.names import Names
from rewound.actors.runtime.followed_file import FollowedFiles, Reloads, follow_file
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import SELECTORS, features_of_files
from rewound.gateway.settings.checks import SettingsError, check_parsed
from rewound.gateway.settings.settings import Settings
from rewound.gateway.store import Task
from rewound.journal.log import Journal

if TYPE_CHECKING:
    from rewound.actors.access.remote.target import Target
    from rewound.gateway.outgoing.webhook import HttpsWebhook

logger = logging.getLogger(__name__)

_Targets = list["Target | None"]  # of webhooks; None for other authorizers


class Authorization:
    """The authorizers of a server. `authorizer` and `statistics` stay the same when the configuration changes."""

    def __init__(
        self,
        settings: Settings,
        names: Names,
        journal: Journal,
        feed: Feed,
        rbac: Rbac,
        first: Sequence[Authorizer],
    ) -> None:
        self._settings, self._names = settings, names
        self._first = [*first, SystemMasters()]
        self.statistics = AuthorizationStatistics()
        self.tasks: list[Task] = []
        self.files: list[FollowedFiles] = []
        self._webhooks: list[HttpsWebhook] = []
        configuration, targets = self._initial()
        self._types = configuration.types
        self._kubeconfigs: list[Path] = []  # of webhooks, and the files that these name
        self._built_in = self._build_in(journal, feed, rbac)
        self._chain, self._without_node = AuthorizerChain(()), AuthorizerChain(())
        self.authorizer = self._route()
        self._put_in_force(configuration, targets)
        if settings.authorization.authorization_config is not None or any(targets):
            flag = "kubeconfig files of webhooks for authorization"
            self.files.append(FollowedFiles(flag, self._kubeconfigs, self._read_kubeconfigs))

    @property
    def authorizes_nodes(self) -> bool:
        return "Node" in self._types

    def _initial(self) -> tuple[AuthorizationConfiguration, _Targets]:
        flags = self._settings.authorization
        path = flags.authorization_config
        if path is not None:
            contents = path.read_bytes()
            self._reloads = self.statistics.reloads = Reloads()
            self._reloads.applied(contents)
            follow = partial(follow_file, path, contents, self.reload, self._reload_failed)
            self.tasks.append(("authorization config", partial(self._run, follow)))
            return check_parsed("--authorization-config", lambda: self._read(contents))
        webhook = None
        if flags.authorization_webhook_config_file is not None:
            webhook = WebhookConfiguration(
                flags.authorization_webhook_config_file,
                flags.authorization_webhook_version,
                authorized_ttl=flags.authorization_webhook_cache_authorized_ttl,
                unauthorized_ttl=flags.authorization_webhook_cache_unauthorized_ttl,
            )
            self.tasks.append(("webhook connections", partial(self._run, trio.sleep_forever)))
        configuration = of_flags(self._settings.authorization_modes, webhook)
        flag = "--authorization-webhook-config-file"
        return configuration, check_parsed(flag, lambda: _read_targets(configuration))

    def _build_in(self, journal: Journal, feed: Feed, rbac: Rbac) -> dict[str, Authorizer]:
        """The authorizers other than webhooks, which remain when the configuration changes."""
        made: dict[str, Callable[[], Authorizer]] = {
            "Node": lambda: self._node(journal, feed),
            "RBAC": lambda: rbac,
            "ABAC": self._abac,
        }
        found = {type_: make() for type_, make in made.items() if type_ in self._types}
        return {**found, "AlwaysAllow": AlwaysAllow(), "AlwaysDeny": AlwaysDeny()}

    def _node(self, journal: Journal, feed: Feed) -> Authorizer:
        from rewound.actors.access.authorization.node_authorizer import NodeAuthorizer, NodeGraph

        graph = NodeGraph(self._names, journal, feed)
        self.tasks.append(("node graph", graph.run))
        return NodeAuthorizer(self._names, graph, self._settings.features)

    def _abac(self) -> Authorizer:
        from rewound.actors.access.authorization.abac import Abac, read_policies

        flag, path = "--authorization-policy-file", self._settings.authorization.authorization_policy_file
        if path is None:
            raise SettingsError(flag, "is missing; the type ABAC of --authorization-config needs it")
        followed = FollowedFiles(flag, [path], lambda _: partial(abac.replace, read_policies(path)))
        abac = Abac(check_parsed(flag, lambda: read_policies(path)))
        self.files.append(followed)
        return abac

    def _route(self) -> Authorizer:
        if not self.authorizes_nodes:
            return self._chain
        from rewound.actors.access.authorization.node_authorizer import NodeUserRouter

        return NodeUserRouter(self._chain, self._without_node)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Follow the file, if there is one, and keep the connections to webhooks until cancelled."""
        try:
            await work()
        finally:
            self.close()

    def close(self) -> None:
        """Close the idle connections to webhooks."""
        for webhook in self._webhooks:
            webhook.close()

    def _reload_failed(self, error: Exception) -> None:
        logger.error("reloading authorization config: %s", error)
        self._reloads.count("failure", time())

    async def reload(self, contents: bytes) -> None:
        """Put other contents of the file in force, unless they are wrong. Compiles in a thread: there may be many."""
        logger.info("found new authorization config data")
        try:
            configuration, targets = await run_in_thread(self._read, contents, self._types)
            self._check_types(configuration)
        except (ValueError, OSError) as error:
            self._reload_failed(error)
            return
        if configuration == self._configuration:
            return
        self._put_in_force(configuration, targets)
        logger.info("reloaded authz config")
        self._reloads.applied(contents)
        self._reloads.count("success", time())

    def _read_kubeconfigs(self, _: Sequence[bytes]) -> Callable[[], None]:
        configuration = self._configuration
        return partial(self._put_in_force, configuration, _read_targets(configuration))

    def _read(
        self, contents: bytes, needed: Sequence[str] = ()
    ) -> tuple[AuthorizationConfiguration, _Targets]:
        """Raises ValueError if the file, or the kubeconfig of a webhook in it, is wrong."""
        from rewound.actors.access.authorization.configuration import (
            KIND,
            SCHEME,
            check_configuration,
            structs_of_file,
        )
        from rewound.actors.access.authorization.match_conditions import environment_of
        from rewound.server.configuration_file import ConfigurationFileError, decode_configuration

        features = features_of_files(self._settings.dialect, self._settings.features)
        try:
            structs = structs_of_file(self._names, features)
            found = decode_configuration(contents, KIND, structs, SCHEME) if contents else {}
        except ConfigurationFileError as error:
            raise ConfigurationFileError(f"failed to load {KIND} from file: {error}") from None
        environment = environment_of(self._names, features)
        configuration = check_configuration(found, environment, features, needed)
        return configuration, _read_targets(configuration)

    def _check_types(self, configuration: AuthorizationConfiguration) -> None:
        for type_ in configuration.types:
            if type_ != WEBHOOK and type_ not in self._built_in:
                raise ValueError(
                    f"authorizer type {type_} is not allowed if it was not enabled at initial server startup"
                )

    def _put_in_force(self, configuration: AuthorizationConfiguration, targets: _Targets) -> None:
        before, self._webhooks = self._webhooks, []
        self._configuration = configuration
        self._kubeconfigs[:] = _files_of(configuration, targets)
        made = [self._authorizer(*one) for one in zip(configuration.authorizers, targets, strict=True)]
        decisions = [self.statistics.decisions_of(one.type, one.name) for one in configuration.authorizers]
        own = [[0, 0] for _ in self._first]
        self._chain.replace([*self._first, *made], [*own, *decisions])
        kept = [index for index, one in enumerate(configuration.authorizers) if one.type != "Node"]
        self._without_node.replace(
            [*self._first, *(made[index] for index in kept)], [*own, *(decisions[index] for index in kept)]
        )
        for webhook in before:
            webhook.close()

    def _authorizer(self, given: AuthorizerConfiguration, target: Target | None) -> Authorizer:
        if given.webhook is None or target is None:
            return self._built_in[given.type]
        from rewound.actors.access.authorization.webhook import WebhookAuthorizer
        from rewound.gateway.outgoing.webhook import HttpsWebhook

        statistics = self.statistics.webhook(given.name)
        webhook = HttpsWebhook(target, seconds=given.webhook.timeout, observe=statistics.called)
        self._webhooks.append(webhook)
        return WebhookAuthorizer(
            webhook,
            self._names.group("authorization"),
            given.webhook.version,
            given.webhook.authorized_ttl,
            given.webhook.unauthorized_ttl,
            selectors=SELECTORS in self._settings.features,
            conditions=given.webhook.conditions,
            denies_on_failure=given.webhook.denies_on_failure,
            statistics=statistics,
        )


def _files_of(configuration: AuthorizationConfiguration, targets: _Targets) -> Iterator[Path]:
    for one, target in zip(configuration.authorizers, targets, strict=True):
        if one.webhook is not None and target is not None:
            yield from (one.webhook.kubeconfig, *target.files)


def _read_targets(configuration: AuthorizationConfiguration) -> _Targets:
    webhooks = [one.webhook for one in configuration.authorizers]
    if not any(webhooks):
        return [None] * len(webhooks)
    from rewound.actors.access.remote.target import read_target

    return [None if one is None else read_target(one.kubeconfig) for one in webhooks]
