"""The server's own changes to a write, after all mutating plugins; no flag disables these.

`ServiceAllocation`: ClusterIPs and node ports. `SigningRequests`: the requesting user and the times of conditions of
certificate signing requests. `CertificateLibrary` and `SchemaLibrary` import, before the actor needs them, the modules
that validate signing requests and CustomResourceDefinitions.
"""

from __future__ import annotations

import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.allocation.allocated import AllocatedItems
from rewound.actors.allocation.services import Allocated, AllocationError, ServicePools, allocate
from rewound.actors.errors import Invalid, Overloaded, Resource
from rewound.actors.kinds.apiextensions import SCHEMA_MODULES
from rewound.actors.kinds.certificates import CONDITION, SPEC
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object, WriteContext
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.runtime.background_import import imported

SERVICES = Resource("", "services")
# Attempts of a thread to reserve the values that it chose. Each failure means that another service got one of them.
MAX_ATTEMPTS = 5


class ServiceAllocation(Plugin):
    """Allocates ClusterIPs and node ports of services, after mutating plugins and before validation.

    It is part of every write of a service and cannot be disabled. Allocated values are reserved until the write is
    durable or failed; after that, the services in the journal show what is allocated. A large service may have tens of
    thousands of ports: for it, a worker thread chooses free values and the event loop reserves them, if they are still
    free.
    """

    name = "ServiceAllocation"
    thread_safe = True
    completes = (rule(CREATE, UPDATE, of=(SERVICES,)),)

    def __init__(self, allocated: AllocatedItems, pools: ServicePools, rules: Rules = DOCUMENTED) -> None:
        self._allocated = allocated
        self._checks_dry_runs = rules.dry_run_node_ports == "checked"
        self._pools = pools

    def complete(self, request: AdmissionRequest) -> Object | None:
        if request.in_thread:
            return self._complete_in_thread(request)
        allocated = self._allocate(request)
        if not request.dry_run:
            self._reserve(request, allocated)
        return allocated.service

    def _complete_in_thread(self, request: AdmissionRequest) -> Object:
        trio.from_thread.run_sync(self._allocated.read_once)
        trio.from_thread.run_sync(self._pools.addresses.read_once)
        for _ in range(MAX_ATTEMPTS):
            allocated = self._allocate(request)
            if request.dry_run or trio.from_thread.run_sync(self._try_to_reserve, request, allocated):
                return allocated.service
        raise Overloaded

    def _try_to_reserve(self, request: AdmissionRequest, allocated: Allocated) -> bool:
        if not all(map(self._allocated.is_free, allocated.items)):
            return False
        self._reserve(request, allocated)
        return True

    def _reserve(self, request: AdmissionRequest, allocated: Allocated) -> None:
        release = self._allocated.reserve(allocated.items)

        def complete(durable: bool) -> None:
            release()
            if durable:
                allocated.stored()

        request.callbacks += (complete,)

    def _allocate(self, request: AdmissionRequest) -> Allocated:
        assert request.object is not None
        unchecked = request.dry_run and not self._checks_dry_runs
        new, old, features = request.object, request.old, request.definition.features
        try:
            return allocate(self._allocated, self._pools, new, old, unchecked=unchecked, features=features)
        except AllocationError as error:
            causes = [one.cause(features) for one in error.errors]
            raise Invalid("", "Service", request.name, causes) from None


class CertificateLibrary(AsyncPlugin):
    """Imports the library that validates requests and certificates, before the actor validates them.

    The import takes 300 ms, during which the event loop would serve no request. Most servers never need the library.
    """

    name = "CertificateLibrary"

    def __init__(self, names: Names) -> None:
        group = names.group("certificates")
        plurals = ("certificatesigningrequests", "podcertificaterequests", "clustertrustbundles")
        resources = [Resource(group, plural) for plural in plurals]
        self.mutates = (rule(CREATE, UPDATE, of=resources, subresources=None),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await imported("cryptography.x509")
        return Admitted()


class SigningRequests(Plugin):
    """Sets the requesting user and the times of conditions in certificate signing requests.

    A client's values for the user are dropped; its times are used.
    """

    name = "SigningRequests"
    thread_safe = True

    def __init__(self, names: Names) -> None:
        resource = Resource(names.group("certificates"), "certificatesigningrequests")
        self.completes = (
            rule(CREATE, of=(resource,)),
            rule(UPDATE, of=(resource,), subresources=("approval", "status")),
        )

    def complete(self, request: AdmissionRequest) -> Object | None:
        new, context = request.object, request.context
        assert new is not None and context is not None
        if request.operation == CREATE:
            return {**new, "spec": _with_requesting_user(context, new["spec"])}
        assert request.old is not None
        status = _with_times(new["status"], request.old["status"], seconds_text(context.time))
        return {**new, "status": status}


def _with_requesting_user(context: WriteContext, spec: Object) -> Object:
    caller = context.caller
    sent = {part: value for part, value in spec.items() if part not in ("username", "uid", "groups", "extra")}
    identity: Object = {"username": context.user}
    if caller is not None:
        identity["uid"] = caller.uid
        identity["groups"] = list(caller.groups)
        identity["extra"] = {key: list(values) for key, values in caller.extra}
    return SPEC.arranged({**sent, **{part: value for part, value in identity.items() if value}})


def _with_times(status: Object, before: Object, now: str) -> Object:
    if not status.get("conditions"):
        return status
    old_times = {
        (one["type"], one["status"]): one["lastTransitionTime"] for one in before.get("conditions", ())
    }
    conditions = []
    for condition in status["conditions"]:
        since = old_times.get((condition["type"], condition["status"])) or now
        times = {
            "lastUpdateTime": condition["lastUpdateTime"] or now,
            "lastTransitionTime": condition["lastTransitionTime"] or since,
        }
        conditions.append(CONDITION.arranged({**condition, **times}))
    return {**status, "conditions": conditions}


class SchemaLibrary(AsyncPlugin):
    """Imports the modules that validate CustomResourceDefinitions and serve their kinds, before an actor needs them.

    The imports take 200 ms, during which the event loop would serve no request. Servers without custom kinds need none.
    """

    name = "SchemaLibrary"

    def __init__(self, names: Names) -> None:
        resource = Resource(names.group("apiextensions"), "customresourcedefinitions")
        self.mutates = (rule(CREATE, UPDATE, of=(resource,)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        for name in SCHEMA_MODULES:
            await imported(name)
        return Admitted()
