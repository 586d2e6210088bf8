"""Who may use devices for administration, and who may change which part of a claim's status. No flag disables this.

Claims and templates that ask for admin access need a label on their namespace, and so does an allocation that grants
it. The permission to write the status of a claim is not enough for all of it: to allocate and reserve needs the
resource `resourceclaims/binding`, the state of a device `resourceclaims/driver` with the name of its driver, and a verb
that says whether the caller runs on the node of the claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.access.authorize import forbidden as denial
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Invalid, Resource
from rewound.actors.identity import User
from rewound.actors.kinds.validation import FieldError, forbidden
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.versions.features import ADMIN_LABEL, ADMIN_LABEL_KEY, STATUS_PARTS
from rewound.journal.log import Journal


class DeviceAccess(AsyncPlugin):
    name = "DeviceAccess"

    def __init__(
        self, names: Names, journal: Journal, authorizer: Authorizer, features: frozenset[str]
    ) -> None:
        self._group = names.group("resource")
        self._journal, self._authorizer, self._names = journal, authorizer, names
        self._label = (
            names.key("admin-access", "resource")
            if ADMIN_LABEL_KEY in features
            else f"{self._group}/admin-access"
        )
        self._parts = STATUS_PARTS in features
        claims, templates = (
            Resource(self._group, one) for one in ("resourceclaims", "resourceclaimtemplates")
        )
        if ADMIN_LABEL in features:
            self.validates = (
                rule(CREATE, of=(claims, templates)),
                rule(UPDATE, of=(claims,), subresources=("status",)),
            )

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None
        errors = [*self._admin_errors(request), *[one async for one in self._right_errors(request)]]
        if errors:
            name = request.object["metadata"].get("name", "")
            raise Invalid(self._group, request.definition.kind, name, [one.cause() for one in errors])
        return Admitted()

    def _admin_errors(self, request: AdmissionRequest) -> Iterator[FieldError]:
        field = _admin_field(request)
        if field and not self._allows_admin_access(request.namespace):
            text = f"admin access to devices requires the `{self._label}: true` label on the containing namespace"
            yield forbidden(field, text)

    def _allows_admin_access(self, namespace: str) -> bool:
        with self._journal.read() as view:
            row = view.get(self._journal.type_id("namespaces"), "", namespace)
        labels = {} if row is None else decode(row.body)["metadata"].get("labels", {})
        return bool(labels.get(self._label) == "true")

    async def _right_errors(self, request: AdmissionRequest) -> Any:
        caller = request.context.caller if request.context else None
        if caller is None or request.old is None or not self._parts:
            return
        assert request.object is not None
        new, old = request.object["status"], request.old["status"]
        verb = "patch" if request.is_patch else "update"
        if any(new.get(part) != old.get(part) for part in ("allocation", "reservedFor")):
            why = await self._refusal(caller, [verb], "binding", "", "")
            if why:
                text = 'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding"'
                yield forbidden("status.allocation", f'{text}, verb="{verb}" permission: {why}')
        if "allocation" not in new:
            return
        verbs = [f"arbitrary-node:{verb}"]
        if self._runs_on(caller, _node_of(new["allocation"])):
            verbs = [f"associated-node:{verb}", *verbs]
        for driver in _changed_drivers(new.get("devices", ()), old.get("devices", ())):
            why = await self._refusal(caller, verbs, "driver", request.namespace, driver)
            if why:
                text = 'changing status.devices requires resource="resourceclaims/driver"'
                yield forbidden("status.devices", f'{text}, verb="[{" ".join(verbs)}]" permission: {why}')

    async def _refusal(self, caller: User, verbs: Sequence[str], part: str, namespace: str, name: str) -> str:
        """Return why the caller has none of these rights; empty: it has one."""
        first = ""
        for verb in verbs:
            wanted = Attributes(caller, verb, self._group, "*", "resourceclaims", part, namespace, name)
            decision = self._authorizer.authorize(wanted)
            if not isinstance(decision, Decision):
                decision = await decision
            if decision.allowed:
                return ""
            first = first or str(denial(wanted, decision.error or decision.reason))
        return first

    def _runs_on(self, caller: User, node: str) -> bool:
        key = self._names.key("node-name", "authentication")
        nodes = dict(caller.extra).get(key, ())
        return bool(node) and caller.name.startswith("system:serviceaccount:") and list(nodes) == [node]


def _admin_field(request: AdmissionRequest) -> str:
    """Return the first field that asks for admin access, or grants it now; empty: there is none."""
    new = request.object or {}
    if request.old is not None:
        granted = _granted(request.old)
        return "" if granted else _granted(new)
    spec = new["spec"].get("spec", new["spec"])  # of a template
    for index, one in enumerate(spec["devices"].get("requests") or ()):
        if (one.get("exactly") or {}).get("adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def _granted(claim: Object) -> str:
    results = (claim["status"].get("allocation") or {}).get("devices", {}).get("results", ())
    for index, one in enumerate(results):
        if one.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""


def _node_of(allocation: Object) -> str:
    """Return the only node that an allocation selects by its name; empty: there is no such one."""
    match allocation.get("nodeSelector", {}).get("nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}], **others}]:
            return "" if others.get("matchExpressions") else str(node)
    return ""


def _changed_drivers(new: Sequence[Object], old: Sequence[Object]) -> list[str]:
    changed = [one for one in new if one not in old] + [one for one in old if one not in new]
    return sorted({one["driver"] for one in changed})
