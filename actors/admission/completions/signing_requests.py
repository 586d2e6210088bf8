"""What the server itself sets in certificate signing requests: the requesting user, and times of conditions.

Values that a client sends for the user are dropped; times that a client sends are kept.
"""

from __future__ import annotations

from actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.background_import import imported
from actors.errors import Resource
from actors.kinds.certificates import CONDITION, SPEC
from actors.kinds.values.times import seconds_text
from actors.messages import Object, WriteContext
from actors.names import Names


class CertificateLibrary(AsyncPlugin):
    """Imports the library that validates requests and certificates, before the actor validates them.

    The import takes 300 ms, in which the event loop would serve nobody. Most servers never need the library.
    """

    name = "CertificateLibrary"

    def __init__(self, names: Names) -> None:
        resource = Resource(names.group("certificates"), "certificatesigningrequests")
        self.mutates = (rule(CREATE, UPDATE, of=(resource,), subresources=None),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await imported("cryptography.x509")
        return Admitted()


class SigningRequests(Plugin):
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
