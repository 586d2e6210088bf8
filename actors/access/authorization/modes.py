"""The authorizers that `--authorization-mode` names, in its order.

The node authorizer is not implemented yet, so `Node,RBAC` equals `RBAC`; it is accepted because operators start servers
with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.access.authorization.always_allow import AlwaysAllow
from actors.access.authorization.chain import AuthorizerChain
from actors.access.authorization.rbac import Rbac
from actors.access.authorize import Authorizer
from actors.names import Names

MODES = ("AlwaysAllow", "RBAC", "Node,RBAC")


def authorizer(mode: str, names: Names, first: Sequence[Authorizer] = ()) -> Authorizer:
    """The authorizer of a mode; those in `first` are called before it."""
    authorizers = [*first, AlwaysAllow() if mode == "AlwaysAllow" else Rbac(names)]
    return authorizers[0] if len(authorizers) == 1 else AuthorizerChain(authorizers)
