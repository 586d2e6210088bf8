"""Evaluates pods and pod templates against the policy of their namespace, and counts the outcomes.

The counts are the metrics pod_security_evaluations_total, _exemptions_total and _errors_total of v1.25, by its labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from actors.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from actors.admission.plugins.pod_security.evaluated_pod import EvaluatedPod
from actors.admission.plugins.pod_security.policy import (
    AUDIT,
    ENFORCE,
    LATEST,
    PRIVILEGED,
    WARN,
    LevelVersion,
    NamespacePolicy,
)
from actors.admission.plugins.pod_security.standards import NEWEST, Standards, describe
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Forbidden

ALLOW, DENY = "allow", "deny"


class Evaluation(NamedTuple):
    """What one count of evaluations is about."""

    decision: str
    policy_level: str
    policy_version: str
    mode: str
    request_operation: str
    resource: str  # pod or controller
    subresource: str


class Subject(NamedTuple):
    """What one count of exemptions or errors is about."""

    request_operation: str
    resource: str
    subresource: str


Key = TypeVar("Key")


class Counts(Generic[Key]):
    """Has one counter for the event loop and one for the worker thread of large objects: `+=` is not atomic."""

    def __init__(self) -> None:
        self._counters: tuple[Counter[Key], Counter[Key]] = (Counter(), Counter())

    def add(self, request: AdmissionRequest, key: Key) -> None:
        self._counters[request.in_thread][key] += 1

    def read(self) -> Mapping[Key, int]:
        return self._counters[False] + self._counters[True]


class Evaluations:
    def __init__(
        self, standards: Standards, configuration: PodSecurityConfiguration, annotation_prefix: str
    ) -> None:
        self._standards = standards
        self._configuration = configuration
        self._annotation_prefix = annotation_prefix
        self.evaluations = Counts[Evaluation]()
        self.exemptions = Counts[Subject]()
        self.errors = Counts[Subject]()  # labels that are not a policy

    def is_exempt(self, request: AdmissionRequest) -> bool:
        """By its namespace or its user."""
        given = self._configuration
        if request.namespace in given.exempt_namespaces:
            self._exempt(request, "namespace")
            return True
        if request.user in given.exempt_users:
            self._exempt(request, "user")
            return True
        return False

    def _annotate(self, request: AdmissionRequest, key: str, value: str) -> None:
        """Add an annotation to the audit event of the request, if there is an audit log."""
        context = request.context
        if context is not None and context.annotations is not None:
            context.annotations[f"{self._annotation_prefix}{key}"] = value

    def _exempt(self, request: AdmissionRequest, by: str) -> None:
        self.exemptions.add(request, _subject(request))
        self._annotate(request, "exempt", by)

    def admit_privileged(self, request: AdmissionRequest) -> None:
        """A pod in a namespace where no mode has a check: almost every pod of a cluster without labels."""
        key = _PRIVILEGED.get((request.operation, request.subresource))
        if key is None:
            key = _evaluation(request, ALLOW, LevelVersion(), ENFORCE)
        self.evaluations.add(request, key)
        self._annotate(request, "enforce-policy", "privileged:latest")

    def evaluate(
        self, request: AdmissionRequest, found: NamespacePolicy, pod: EvaluatedPod, *, enforced: bool
    ) -> None:
        """Refuse a pod that violates the enforced level; annotate and warn as the other two modes say."""
        if pod.spec.get("runtimeClassName") in self._configuration.exempt_runtime_classes:
            self._exempt(request, "runtimeClass")
            return
        if found.errors:
            self.errors.add(request, _subject(request))
            self._annotate(request, "error", f"Failed to parse policy: {_aggregated(found)}")
        enforce, audit, warn = found.policy
        described = {
            level: describe(self._standards.violations(level, pod))
            for level in {*((enforce,) if enforced else ()), audit, warn}
        }
        self._audit(request, audit, described[audit])
        if enforced:
            self._enforce(request, enforce, described[enforce])
        if why := described[warn]:
            self._count(request, DENY, warn, WARN)
            request.warnings += (f'would violate PodSecurity "{warn}": {why}',)

    def _audit(self, request: AdmissionRequest, level: LevelVersion, why: str) -> None:
        if why:
            self._count(request, DENY, level, AUDIT)
            self._annotate(request, "audit-violations", f'would violate PodSecurity "{level}": {why}')

    def _enforce(self, request: AdmissionRequest, level: LevelVersion, why: str) -> None:
        self._annotate(request, "enforce-policy", str(level))
        self._count(request, DENY if why else ALLOW, level, ENFORCE)
        if why:
            text = f'violates PodSecurity "{level}": {why}'
            raise Forbidden(request.definition.resource, _name(request), text)

    def _count(self, request: AdmissionRequest, decision: str, level: LevelVersion, mode: str) -> None:
        self.evaluations.add(request, _evaluation(request, decision, level, mode))


_PRIVILEGED: Final = {
    (operation, ""): Evaluation(ALLOW, PRIVILEGED, LATEST, ENFORCE, operation.lower(), "pod", "")
    for operation in (CREATE, UPDATE)
}


def _evaluation(request: AdmissionRequest, decision: str, level: LevelVersion, mode: str) -> Evaluation:
    return Evaluation(decision, level.level, _known_version(level), mode, *_subject(request))


def _subject(request: AdmissionRequest) -> Subject:
    resource = "pod" if request.definition.plural == "pods" else "controller"
    return Subject(request.operation.lower(), resource, request.subresource)


def _known_version(level: LevelVersion) -> str:
    """As v1.25 names it in the metric, where there must be few different versions."""
    if level.level == PRIVILEGED or level.version == LATEST:
        return LATEST
    return level.version if int(level.version.removeprefix("v1.")) <= NEWEST else "future"


def _name(request: AdmissionRequest) -> str:
    """The name, also one that the server generated."""
    assert request.object is not None
    return request.name or str(request.object["metadata"].get("name", ""))


def _aggregated(found: NamespacePolicy) -> str:
    texts = [f"{one.field}: {one.message}" for one in found.errors]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
