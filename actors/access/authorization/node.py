"""`--authorization-mode=Node`: what nodes may do. A node is a user system:node:<name> in the group system:nodes.

A node reads a secret, config map, claim, volume or volume attachment only while it is related to it (`node_graph`),
and creates tokens of the service accounts of its pods; it writes its own lease and CSINode. All other resources are
the same for all nodes (`node_rules`). Whatever it does not allow, a later authorizer may still allow: the reasons are
those of v1.25.

For users who are no nodes the authorizer has no opinion. `NodesApart` spares them the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from actors.access.attributes import Attributes
from actors.access.authorization.chain import AuthorizerChain
from actors.access.authorization.node_graph import ACCOUNT, CLAIM, CONFIG_MAP, NodeGraph
from actors.access.authorization.node_rules import node_rules
from actors.access.authorize import ALLOWED, NO_OPINION, Decision, Rights, Verdict
from actors.access.rules import NO_RULES, Rules
from actors.identity import NODE_PREFIX, User, node_of
from actors.names import Names
from actors.quoting import quoted_start

_OWN_OBJECT_VERBS: Final = frozenset({"get", "create", "update", "patch", "delete"})
_READ_VERBS: Final = frozenset({"get", "list", "watch"})
_NOT_LISTED: Final = Rules(errors=("node authorizer does not support user rule resolution",), incomplete=True)

Rule = Callable[[str, Attributes], Decision]


class NodeAuthorizer:
    def __init__(self, names: Names, graph: NodeGraph) -> None:
        self._graph = graph
        self._lease_namespace = names.node_lease_namespace
        self._common = node_rules(names)
        storage = names.group("storage")
        self._by_graph: dict[tuple[str, str], Rule] = {
            ("", "secrets"): self._secret,
            ("", "configmaps"): self._config_map,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._volume,
            ("", "serviceaccounts"): self._token,
            (storage, "volumeattachments"): self._attachment,
        }
        self._by_name: dict[tuple[str, str], Rule] = {
            (names.group("coordination"), "leases"): self._lease,
            (storage, "csinodes"): self._csi_node,
        }

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        node = node_of(attributes.user)
        if node is None or not attributes.is_resource:
            return NO_OPINION
        if not node:
            return _no_opinion(f"unknown node for user {quoted_start(attributes.user.name)}")
        resource = attributes.group, attributes.resource
        rule = self._by_graph.get(resource)
        if rule is not None:
            return (
                rule(node, attributes) if self._graph.current else self._decide_later(rule, node, attributes)
            )
        rule = self._by_name.get(resource)
        if rule is not None:
            return rule(node, attributes)
        verbs = self._common.get((*resource, attributes.subresource), ())
        return ALLOWED if attributes.verb in verbs else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        """What a node may do depends on its pods, and is no list of rules."""
        return _NOT_LISTED if node_of(user) is not None else NO_RULES

    async def _decide_later(self, rule: Rule, node: str, attributes: Attributes) -> Decision:
        await self._graph.wait()
        return rule(node, attributes)

    def _secret(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_read(attributes) or _related(
            node, self._graph.reads_secret(node, attributes.namespace, attributes.name)
        )

    def _config_map(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_read(attributes) or self._named_in_pod(node, attributes, CONFIG_MAP)

    def _claim(self, node: str, attributes: Attributes) -> Decision:
        if attributes.subresource != "status":
            return _why_not_get(attributes) or self._named_in_pod(node, attributes, CLAIM)
        if attributes.verb not in ("update", "patch"):
            return _no_opinion("can only get/update/patch this type")
        return self._named_in_pod(node, attributes, CLAIM)

    def _volume(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_get(attributes) or _related(node, self._graph.mounts_volume(node, attributes.name))

    def _attachment(self, node: str, attributes: Attributes) -> Decision:
        return _why_not_get(attributes) or _related(node, self._graph.has_attachment(node, attributes.name))

    def _token(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb != "create" or not attributes.name:
            return _no_opinion("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no_opinion("can only create token subresource of serviceaccount")
        return self._named_in_pod(node, attributes, ACCOUNT)

    def _named_in_pod(self, node: str, attributes: Attributes, prefix: str) -> Decision:
        if not attributes.name:
            return _no_opinion("No Object name found")
        return _related(node, self._graph.names_in_pod(node, attributes.namespace, prefix + attributes.name))

    def _lease(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != self._lease_namespace:
            return _no_opinion(f'can only access leases in the "{self._lease_namespace}" system namespace')
        # The name is not known when a lease is created: NodeRestriction checks it then.
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, attributes: Attributes) -> Decision:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _no_opinion("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access CSINode with the same name as the requesting node")
        return ALLOWED


class NodesApart:
    """Calls one authorizer for users with names of nodes and another for all others, who pay one comparison."""

    def __init__(self, of_nodes: AuthorizerChain, of_others: AuthorizerChain) -> None:
        self._of_nodes = of_nodes
        self._of_others = of_others

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        if attributes[0].name.startswith(NODE_PREFIX):
            return self._of_nodes.authorize(attributes)
        return self._of_others.authorize(attributes)

    def rights_of(self, user: User) -> Rights | None:
        chosen = self._of_nodes if user.name.startswith(NODE_PREFIX) else self._of_others
        return chosen.rights_of(user)

    async def rules(self, user: User, namespace: str) -> Rules:
        chosen = self._of_nodes if user.name.startswith(NODE_PREFIX) else self._of_others
        return await chosen.rules(user, namespace)


def _why_not_read(attributes: Attributes) -> Decision | None:
    """Why a node may not read this, whatever its pods name; for objects that it may also list and watch by name."""
    if attributes.verb not in _READ_VERBS:
        return _no_opinion("can only read resources of this type")
    if attributes.subresource:
        return _no_opinion("cannot read subresource")
    if not attributes.namespace:
        return _no_opinion("can only read namespaced object of this type")
    return None if attributes.name else _no_opinion("No Object name found")


def _why_not_get(attributes: Attributes) -> Decision | None:
    if attributes.verb != "get":
        return _no_opinion("can only get individual resources of this type")
    if attributes.subresource:
        return _no_opinion("cannot get subresource")
    return None if attributes.name else _no_opinion("No Object name found")


def _related(node: str, found: bool) -> Decision:
    if found:
        return ALLOWED
    return _no_opinion(f"no relationship found between node '{node}' and this object")


def _no_opinion(reason: str) -> Decision:
    return Decision(Verdict.NO_OPINION, reason)
