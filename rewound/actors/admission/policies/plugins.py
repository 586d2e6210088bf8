"""Creates the plugins of policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.policies.mutating import MutatingAdmissionPolicy
from rewound.actors.admission.policies.params import Params
from rewound.actors.admission.policies.policy import Policies
from rewound.actors.admission.policies.validating import ValidatingAdmissionPolicy
from rewound.actors.admission.webhooks.matching import exempt_resources
from rewound.actors.conversion.converter import Converter, NoClients
from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    MUTATING_POLICIES,
    PARAM_SELECTORS,
    POLICIES_SKIP_REVIEWS,
    UNBOUND_POLICIES_IGNORED,
    VALIDATING_POLICIES,
    VALIDATION_ACTIONS,
)

if TYPE_CHECKING:
    from rewound.actors.admission.policies.review import Reviewer


def policy_plugins(context: PluginContext) -> Iterable[Plugin]:
    """The plugins of the kinds of policies that the server has."""
    names, features, registry = context.names, context.features, context.registry
    converter = context.converter or Converter(names, NoClients())

    def equivalents(definition: Definition) -> Sequence[Definition]:
        found = registry.current.stored_type(definition.type_name) if registry is not None else None
        return found.served if found is not None else ()

    def new_reviewer() -> Reviewer:
        from rewound.actors.admission.policies.review import Reviewer

        return Reviewer(names, features, context.journal, converter, context.authorizer)

    def policies(kind: str) -> Policies[Any]:
        found: Policies[Any] = Policies(
            names,
            kind,
            context.journal,
            context.feed,
            equivalents,
            exempt_from_policies(names, features),
            () if VALIDATION_ACTIONS in features else ("Deny",),
            with_unbound=UNBOUND_POLICIES_IGNORED not in features,
        )
        if registry is not None:
            registry.follow(lambda *_: found.forget_kinds())
        return found

    by_name = PARAM_SELECTORS not in features
    params = Params(context.journal, context.find_kind, converter, by_name_only=by_name)
    common = params, new_reviewer, context.conditions
    if MUTATING_POLICIES in features:
        yield MutatingAdmissionPolicy(names, features, policies("mutating"), *common)
    if VALIDATING_POLICIES in features:
        yield ValidatingAdmissionPolicy(names, features, policies("validating"), *common)


def exempt_from_policies(names: Names, features: frozenset[str]) -> frozenset[Resource]:
    """What no policy matches: policies themselves, and reviews without which nobody could change a policy."""
    policies = frozenset(
        one for one in exempt_resources(names) if "policy" in one.plural or "policies" in one.plural
    )
    if POLICIES_SKIP_REVIEWS not in features:
        return policies
    authentication, authorization = names.group("authentication"), names.group("authorization")
    return policies | {
        *(Resource(authentication, name) for name in ("selfsubjectreviews", "tokenreviews")),
        *(
            Resource(authorization, name)
            for name in (
                "localsubjectaccessreviews",
                "selfsubjectaccessreviews",
                "selfsubjectrulesreviews",
                "subjectaccessreviews",
            )
        ),
    }
