"""An authorizer with which tests grant rights; it is asked before the others."""

from __future__ import annotations

from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rules
from rewound.actors.identity import User


class Grants:
    """Rights as (user, verb, resource, name): a subresource is part of the resource, and `any` is every name."""

    def __init__(self, *rights: tuple[str, str, str, str]) -> None:
        self.rights = set(rights)

    def authorize(self, attributes: Attributes) -> Decision:
        user, verb, resource = attributes.user.name, attributes.verb, attributes.resource
        if attributes.subresource:
            resource += f"/{attributes.subresource}"
        granted = {(user, verb, resource, attributes.name), (user, verb, resource, "any")}
        return ALLOWED if granted & self.rights else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()
