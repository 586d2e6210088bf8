"""The plugins about groups of pods. PodGroupProtection: a new PodGroup gets a finalizer, so that it stays while pods
use it. PodGroupWorkloadExists: the template that a new PodGroup names must exist.
"""

from __future__ import annotations

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.golang.quoting import quoted
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.versions.features import GENERIC_WORKLOAD, POD_GROUPS
from rewound.journal.log import Journal


class PodGroupProtection(Plugin):
    name = "PodGroupProtection"
    thread_safe = True

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        if {GENERIC_WORKLOAD, POD_GROUPS} <= features:
            self.mutates = (rule(CREATE, of=(Resource(names.group("scheduling"), "podgroups"),)),)
        self._finalizer = f"{names.group('scheduling')}/podgroup-protection"

    def mutate(self, request: AdmissionRequest) -> Object | None:
        new = request.object
        assert new is not None
        metadata = new["metadata"]
        finalizers = metadata.get("finalizers", ())
        if self._finalizer in finalizers:
            return None
        return {**new, "metadata": {**metadata, "finalizers": [*finalizers, self._finalizer]}}


class PodGroupWorkloadExists(Plugin):
    name = "PodGroupWorkloadExists"
    thread_safe = True

    def __init__(self, names: Names, journal: Journal, features: frozenset[str]) -> None:
        self._groups = Resource(names.group("scheduling"), "podgroups")
        self._journal = journal
        if {GENERIC_WORKLOAD, POD_GROUPS} <= features:
            self.validates = (rule(CREATE, of=(self._groups,)),)
            self._workloads = journal.type_id(f"workloads.{names.group('scheduling')}")

    def validate(self, request: AdmissionRequest) -> None:
        new = request.object
        assert new is not None
        named = (new["spec"].get("podGroupTemplateRef") or {}).get("workload")
        if not named:
            return
        workload, template = named["workloadName"], named["podGroupTemplateName"]
        with self._journal.read() as view:
            row = view.get(self._workloads, request.namespace, workload)
        if row is None:
            raise self._refusal(request, f"Workload {quoted(workload)} not found")
        stored = decode(row.body)
        if "deletionTimestamp" in stored["metadata"]:
            raise self._refusal(request, f"Workload {quoted(workload)} is being deleted")
        if all(one["name"] != template for one in stored["spec"]["podGroupTemplates"]):
            text = f"PodGroupTemplate {quoted(template)} not found in Workload {quoted(workload)}"
            raise self._refusal(request, text)

    def _refusal(self, request: AdmissionRequest, why: str) -> Forbidden:
        return Forbidden(self._groups, request.name, f"PodGroup rejected: {why}")
