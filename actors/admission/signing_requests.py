"""What the server itself says in certificate signing requests: who asks, and when a condition came to hold.

Whatever a client claims about the first is dropped; of times, those that a client gives stand.
"""

from __future__ import annotations

from actors.admission.chain import Review
from actors.errors import Resource
from actors.kinds.certificates import CONDITION, SPEC
from actors.kinds.values.times import seconds_text
from actors.messages import Object, Stamp
from actors.names import Names


class SigningRequests:
    def __init__(self, names: Names) -> None:
        self._resource = Resource(names.group("certificates"), "certificatesigningrequests")

    def complete(self, review: Review) -> None:
        if review.definition.resource != self._resource or review.object is None or review.stamp is None:
            return
        if review.operation == "CREATE":
            review.object["spec"] = _by(review.stamp, review.object["spec"])
        elif review.subresource and review.old is not None:
            _fill_times(review.object["status"], review.old["status"], seconds_text(review.stamp.time))


def _by(stamp: Stamp, spec: Object) -> Object:
    caller = stamp.caller
    said = {part: value for part, value in spec.items() if part not in ("username", "uid", "groups", "extra")}
    known: Object = {"username": stamp.user}
    if caller is not None:
        known["uid"] = caller.uid
        known["groups"] = list(caller.groups)
        known["extra"] = {key: list(values) for key, values in caller.extra}
    return SPEC.arranged({**said, **{part: value for part, value in known.items() if value}})


def _fill_times(status: Object, before: Object, now: str) -> None:
    held = {(one["type"], one["status"]): one["lastTransitionTime"] for one in before.get("conditions", ())}
    for condition in status.get("conditions", ()):
        since = held.get((condition["type"], condition["status"])) or now
        times = {
            "lastUpdateTime": condition["lastUpdateTime"] or now,
            "lastTransitionTime": condition["lastTransitionTime"] or since,
        }
        condition.update(CONDITION.arranged({**condition, **times}))
