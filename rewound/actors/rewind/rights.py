"""The rights that reads of history need: whoever may not read an object may not read its old versions either.

?at= on a get or list          what the get or list itself needs
history, blame                 get on RESOURCE/history or RESOURCE/blame, and get on the object
rollback                       create on RESOURCE/rollback, get and update on the object
undelete                       create on RESOURCE/undelete, get and create on the object
all of them, of Secrets        also `rewind` on the Secret: a value that was replaced because it leaked, or was
                               meant for another user, must not go to everybody who may read the current one
"""

from __future__ import annotations

from typing import Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, refusal
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition

SECRETS: Final = "secrets"  # the type whose history needs an additional right
REWIND: Final = "rewind"  # the verb of that right


class HistoryRights:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def check(self, user: User, definition: Definition, namespace: str, name: str, *verbs: str) -> None:
        """Raise unless the user has these verbs on an object (on a list, without a name), and may read its history."""
        extra = (REWIND,) if definition.type_name == SECRETS else ()
        for verb in (*verbs, *extra):
            attributes = Attributes(
                user, verb, definition.group, definition.version, definition.plural, "", namespace, name
            )
            decision = self._authorizer.authorize(attributes)
            if not isinstance(decision, Decision):
                decision = await decision
            if not decision.allowed:
                raise refusal(attributes, decision)
