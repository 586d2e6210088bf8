"""The authorizers that `--authorization-mode` lists, in its order; before them, system:masters may do everything.

`rewound/server/access.py` has a function per mode that creates its authorizer; this module has the names of the
modes, and their order. A mode without such a function is accepted, and decides nothing. Flags are parsed with this
module before anything about access is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewound.actors.access.authorize import Authorizer

MODES = ("Node", "RBAC", "ABAC", "Webhook", "AlwaysAllow", "AlwaysDeny")


def parse_modes(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of modes. Raises ValueError for an unknown or repeated one."""
    modes = tuple(one.strip() for one in text.split(","))
    for index, mode in enumerate(modes):
        if mode not in MODES:
            raise ValueError(f"{mode!r} is not known; choose among {', '.join(MODES)}")
        if mode in modes[:index]:
            raise ValueError(f"{mode} occurs more than once; give every mode once, in the order of decision")
    return modes


def authorizer(
    modes: Sequence[str], makers: Mapping[str, Callable[[], Authorizer]], first: Sequence[Authorizer] = ()
) -> Authorizer:
    """The authorizers of the modes as one; those in `first` are called before them."""
    from rewound.actors.access.authorization.chain import AuthorizerChain, SystemMasters

    made = [(mode, makers[mode]()) for mode in modes if mode in makers]
    chain = AuthorizerChain([*first, SystemMasters(), *(one for _, one in made)])
    if all(mode != "Node" for mode, _ in made):
        return chain
    others = AuthorizerChain([*first, SystemMasters(), *(one for mode, one in made if mode != "Node")])
    from rewound.actors.access.authorization.node_authorizer import NodeUserRouter

    return NodeUserRouter(chain, others)
