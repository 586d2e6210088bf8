"""DenyServiceExternalIPs: a service may keep or remove its external IPs, but not add any."""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.messages import Object

SERVICES: Final = Resource("", "services")


class DenyServiceExternalIPs(Plugin):
    name = "DenyServiceExternalIPs"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=(SERVICES,)),)

    def validate(self, request: AdmissionRequest) -> None:
        if not _external_ips(request.object) <= _external_ips(request.old):
            raise forbidden(request, "Use of external IPs is denied by admission control")


def _external_ips(service: Object | None) -> set[str]:
    return set(() if service is None else service["spec"].get("externalIPs", ()))
