"""The authorizer behind each value of `--authorization-mode`.

`Node` has no rules of its own yet and adds nothing to `RBAC`; it is accepted because operators start
servers with it, and its rules will stand in front of those of roles.
"""

from __future__ import annotations

from actors.access.always_allow import AlwaysAllow
from actors.access.authorize import Authorizer
from actors.access.rbac import Rbac
from actors.names import Names

MODES = ("AlwaysAllow", "RBAC", "Node,RBAC")


def authorizer(mode: str, names: Names) -> Authorizer:
    return AlwaysAllow() if mode == "AlwaysAllow" else Rbac(names)
