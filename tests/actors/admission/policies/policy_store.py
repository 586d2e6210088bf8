"""A store of version 1.36 or another, with policies in force, and shorthands for them.

async with open_policy_store() as store:
    await store.policy("limit", "object.data.n == '1'")
    await store.refusal("configmaps", {"metadata": {"name": "a"}})
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import trio

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.policies.plugins import policy_plugins
from rewound.actors.admission.policies.validating import ValidatingAdmissionPolicy
from rewound.actors.admission.timings import ConditionTimings
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import parse_enablement
from rewound.actors.names import CLUSTER
from rewound.actors.versions.features import Release, choose_release
from tests.actors.object_store import Document, ManualClock, Refused, Store, memory_folder

CONFIG_MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}


@cache
def _release(version: str) -> Release:
    off_by_default = version < "1.30"
    return choose_release(version, "ValidatingAdmissionPolicy=true" if off_by_default else "")


@cache
def _catalog(version: str) -> Catalog:
    return built_in(CLUSTER, _release(version), parse_enablement("api/alpha=true,api/beta=true"))


class PolicyStore(Store):
    plugin: ValidatingAdmissionPolicy
    conditions: ConditionTimings
    version: str
    _preferred = "v1"

    def _plugins(self) -> tuple[Plugin, ...]:
        context = PluginContext(
            CLUSTER,
            self.journal,
            self.feed,
            AlwaysAllow(),
            Rbac(stored_policy(CLUSTER, self.journal, self.feed)),
            self.registry,
            features=_release(self.version).features,
        )
        self.conditions = context.conditions
        found = tuple(policy_plugins(context))
        [self.plugin] = (one for one in found if isinstance(one, ValidatingAdmissionPolicy))
        return found

    def definition(self, plural: str) -> Definition:
        found = (one for one in self.catalog.definitions if one.plural == plural)
        return max(found, key=lambda one: one.version == self._preferred)

    async def policy(
        self,
        name: str,
        *expressions: str,
        binding: Document | None = None,
        constraints: Document | None = None,
        **spec: Any,
    ) -> None:
        """Create a policy for config maps, with a binding of the same name that denies."""
        validations = [{"expression": one} for one in expressions]
        given = {"resourceRules": [CONFIG_MAPS], **(constraints or {})}
        body = {"matchConstraints": given, **({"validations": validations} if validations else {}), **spec}
        await self.create("validatingadmissionpolicies", {"metadata": {"name": name}, "spec": body})
        await self.bind(name, name, **(binding or {}))

    async def bind(self, name: str, policy: str, **spec: Any) -> None:
        body = {"policyName": policy, "validationActions": ["Deny"], **spec}
        await self.create("validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": body})

    async def mutating(
        self,
        name: str,
        *texts: str,
        binding: Document | None = None,
        match: Document | None = None,
        **spec: Any,
    ) -> None:
        """Create a mutating policy for config maps, whose apply configurations are `texts`, and bind it."""
        patches = [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": one}} for one in texts
        ]
        body = {
            "matchConstraints": {"resourceRules": [CONFIG_MAPS], **(match or {})},
            "reinvocationPolicy": "Never",
            **({"mutations": patches} if patches else {}),
            **spec,
        }
        await self.create("mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": body})
        bound = {"metadata": {"name": name}, "spec": {"policyName": name, **(binding or {})}}
        await self.create("mutatingadmissionpolicybindings", bound)

    async def refusal(
        self, body: Document, plural: str = "configmaps", namespace: str = "default", version: str = "v1"
    ) -> str:
        """Why a create is refused, without the part that all refusals of policies have; "" if it is not."""
        self._preferred = version
        try:
            await self.create(plural, body, namespace, dryRun="All")
        except Refused as error:
            return error.message.partition("denied request: ")[2] or error.message
        finally:
            self._preferred = "v1"
        return ""


@asynccontextmanager
async def open_policy_store(version: str = "1.36") -> AsyncIterator[PolicyStore]:
    with memory_folder() as folder:
        store = PolicyStore(folder, ManualClock())
        store.version, store.catalog = version, _catalog(version)
        async with trio.open_nursery() as nursery:
            await store.start(nursery)
            try:
                yield store
            finally:
                store.stop()
