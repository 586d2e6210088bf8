"""Allocates ClusterIPs and node ports of services, after mutating plugins and before validation.

It is part of every write of a service and cannot be disabled. Allocated values are reserved until the write is durable
or failed; after that, the services in the journal show what is allocated. A large service may have tens of thousands of
ports: for it, a worker thread chooses free values and the event loop reserves them, if they are still free.
"""

from __future__ import annotations

import trio

from actors.admission.plugin import Plugin, rule
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.allocation.allocated import AllocatedItems
from actors.allocation.ip_families import AllocationError
from actors.allocation.ranges import ServiceRanges
from actors.allocation.services import Allocated, ServicePools, allocate
from actors.errors import Invalid, Overloaded, Resource
from actors.messages import Object

SERVICES = Resource("", "services")
# Of a thread to reserve what it chose. Each failure means that another service got one of the values.
MAX_ATTEMPTS = 5


class ServiceAllocation(Plugin):
    name = "ServiceAllocation"
    thread_safe = True
    completes = (rule(CREATE, UPDATE, of=(SERVICES,)),)

    def __init__(self, allocated: AllocatedItems, ranges: ServiceRanges) -> None:
        self._allocated = allocated
        self._pools = ServicePools(ranges)

    def complete(self, request: AdmissionRequest) -> Object | None:
        if request.in_thread:
            return self._complete_in_thread(request)
        allocated = self._allocate(request)
        if not request.dry_run:
            request.callbacks += (self._allocated.reserve(allocated.items),)
        return allocated.service

    def _complete_in_thread(self, request: AdmissionRequest) -> Object:
        trio.from_thread.run_sync(self._allocated.read_once)
        for _ in range(MAX_ATTEMPTS):
            allocated = self._allocate(request)
            if request.dry_run or trio.from_thread.run_sync(self._try_to_reserve, request, allocated):
                return allocated.service
        raise Overloaded

    def _try_to_reserve(self, request: AdmissionRequest, allocated: Allocated) -> bool:
        if not all(map(self._allocated.is_free, allocated.items)):
            return False
        request.callbacks += (self._allocated.reserve(allocated.items),)
        return True

    def _allocate(self, request: AdmissionRequest) -> Allocated:
        assert request.object is not None
        try:
            return allocate(self._allocated, self._pools, request.object, request.old)
        except AllocationError as error:
            raise Invalid("", "Service", request.name, [one.cause() for one in error.errors]) from None
