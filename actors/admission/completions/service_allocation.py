"""Allocates ClusterIPs and node ports of services, after mutating plugins and before validation.

It is part of every write of a service and cannot be disabled. Allocated values are reserved until the write is durable
or failed; after that, the services in the journal show what is allocated.
"""

from __future__ import annotations

from actors.admission.plugin import Plugin, rule
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.allocation.allocated import AllocatedItems
from actors.allocation.ip_families import AllocationError
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
        except AllocationError as error:
            raise Invalid("", "Service", request.name, [one.cause() for one in error.errors]) from None
        if not request.dry_run:
            request.callbacks.append(self._allocated.reserve(allocated.items))
        return allocated.service
