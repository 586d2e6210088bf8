"""NamespaceExists: rejects writes in a namespace that does not exist; for servers without NamespaceLifecycle."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.caches import Namespaces
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import NotFound, Resource

NAMESPACES: Final = Resource("", "namespaces")


class NamespaceExists(Plugin):
    name = "NamespaceExists"
    validates = (rule(CREATE, UPDATE, DELETE, subresources=None, namespaced_only=True),)

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def validate(self, request: AdmissionRequest) -> None:
        if self._namespaces.terminating(request.namespace) is None:
            raise NotFound(NAMESPACES, request.namespace)
