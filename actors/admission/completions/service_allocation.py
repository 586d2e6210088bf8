"""Addresses and node ports of services, allocated after everybody's changes and before validation.

A part of every write of a service, which nobody can disable. What is allocated is reserved until the write is durable
or lost; from then on the journal says who holds what.
"""

from __future__ import annotations

from actors.admission.plugin import Plugin, rule
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.allocation.allocated import AllocatedItems
from actors.allocation.families import Unfit
from actors.allocation.ranges import ServiceRanges
from actors.allocation.services import ServicePools, allocate
from actors.errors import Invalid, Resource
from actors.messages import Object

SERVICES = Resource("", "services")


class ServiceAllocation(Plugin):
    name = "ServiceAllocation"
    completes = (rule(CREATE, UPDATE, of=(SERVICES,)),)

    def __init__(self, allocated: AllocatedItems, ranges: ServiceRanges) -> None:
        self._allocated = allocated
        self._pools = ServicePools(ranges)

    def complete(self, request: AdmissionRequest) -> Object | None:
        assert request.object is not None
        try:
            allocated = allocate(self._allocated, self._pools, request.object, request.old)
        except Unfit as unfit:
            raise Invalid("", "Service", request.name, [error.cause() for error in unfit.errors]) from None
        if not request.dry_run:
            request.callbacks.append(self._allocated.reserve(allocated.items))
        return allocated.service
