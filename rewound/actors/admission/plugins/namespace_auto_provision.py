"""NamespaceAutoProvision: a create in a missing namespace creates that first, except in a dry run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rewound.actors.admission.caches import Namespaces
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, forbidden, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import AlreadyExists, Overloaded, RequestError, ShuttingDown

CreateNamespace = Callable[[str], Awaitable[None]]


class NamespaceAutoProvision(AsyncPlugin):
    name = "NamespaceAutoProvision"
    mutates = (rule(CREATE, subresources=None, namespaced_only=True),)

    def __init__(self, namespaces: Namespaces, create_namespace: CreateNamespace) -> None:
        self._namespaces = namespaces
        self._create_namespace = create_namespace

    def concerns(self, request: AdmissionRequest) -> bool:
        return not request.dry_run and self._namespaces.terminating(request.namespace) is None

    async def admit(self, request: AdmissionRequest) -> Admitted:
        try:
            await self._create_namespace(request.namespace)
        except AlreadyExists:
            pass  # another request has just created it
        except (Overloaded, ShuttingDown):
            raise
        except RequestError as error:
            raise forbidden(request, str(error)) from None
        return Admitted()
