"""AlwaysAdmit, which does nothing, and AlwaysDeny, which rejects every write of clients: for tests of clients.

Writes of the server itself pass AlwaysDeny, because a server without its initial objects cannot serve reads either.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CONNECT, CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.messages import Object

DENIED: Final = "admission control is denying all modifications"


class AlwaysAdmit(Plugin):
    name = "AlwaysAdmit"


class AlwaysDeny(Plugin):
    name = "AlwaysDeny"
    thread_safe = True
    mutates = validates = (rule(CREATE, UPDATE, DELETE, CONNECT, subresources=None),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        self.validate(request)
        return None

    def validate(self, request: AdmissionRequest) -> None:
        if request.context is not None and request.context.caller is not None:
            raise forbidden(request, DENIED)
