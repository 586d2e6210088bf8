"""PodSecurity: rejects pods that violate the enforced level of their namespace, and warns about other violations.

Four plugins with one name: `PodSecurity` for pods, `PodSecurityOfTemplates` for objects with a pod template,
`PodSecurityOfNamespaces` for labels of namespaces, and `PodSecurityOfExistingPods` for namespaces that get a stricter
level. `Evaluations`, which the first two share, compares with the policy and counts the outcomes for metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import trio

from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.plugins.pod_security.policy import (
    AUDIT,
    ENFORCE,
    LATEST,
    NAMESPACES,
    PRIVILEGED,
    WARN,
    LevelVersion,
    NamespacePolicies,
    NamespacePolicy,
    PodSecurityConfiguration,
    PolicyLabels,
    is_tightened,
    parse_configuration,
)
from rewound.actors.admission.plugins.pod_security.standards import (
    EvaluatedPod,
    Standards,
    describe,
    evaluated,
    reasons,
)
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Invalid, NotFound, Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors.facts import has_owners, unpack_uids
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Row


def pod_security(
    names: Names,
    journal: Journal,
    feed: Feed,
    given: PluginConfiguration | None,
    features: frozenset[str] = frozenset(),
) -> tuple[Plugin, ...]:
    configuration = parse_configuration(names, given)
    labels, standards = PolicyLabels(names, configuration.defaults), Standards(names, features)
    policies = NamespacePolicies(labels, journal, feed)
    evaluations = Evaluations(standards, configuration, labels.prefix)
    return (
        PodSecurity(names, policies, evaluations),
        PodSecurityOfTemplates(policies, evaluations),
        PodSecurityOfNamespaces(labels, configuration),
        PodSecurityOfExistingPods(journal, labels, standards, configuration),
    )


PODS: Final = Resource("", "pods")


class PodSecurity(Plugin):
    """PodSecurity for pods: rejects those that violate the enforced level of their namespace.

    Of the updates, it evaluates only those that change what a check reads and an update can change: the image or the
    seccomp annotation of a container, or a new ephemeral container. So a pod that was admitted before its namespace
    became stricter can still get labels, finalizers and a status.
    """

    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, of=(PODS,)), rule(UPDATE, of=(PODS,), subresources=("", "ephemeralcontainers")))

    def __init__(self, names: Names, policies: NamespacePolicies, evaluations: Evaluations) -> None:
        self._policies = policies
        self.evaluations = evaluations
        self._seccomp = names.key("", "container.seccomp.security.alpha")

    def validate(self, request: AdmissionRequest) -> None:
        if self.evaluations.is_exempt(request):
            return
        found = self._policies.of(request.namespace)
        if found is None:  # possible while NamespaceLifecycle is disabled
            raise NotFound(NAMESPACES, request.namespace)
        if found.admits_every_pod:
            self.evaluations.admit_privileged(request)
            return
        pod, old = request.object, request.old
        assert pod is not None
        if old is None or self._is_significant(pod, old):
            evaluated = EvaluatedPod(pod["metadata"], pod["spec"])
            self.evaluations.evaluate(request, found, evaluated, enforced=True)

    def _is_significant(self, pod: Object, old: Object) -> bool:
        for part in ("containers", "initContainers"):
            containers, before = pod["spec"].get(part) or (), old["spec"].get(part) or ()
            if len(containers) != len(before):
                return True
            for one, was in zip(containers, before, strict=True):
                if self._has_changed(one, was, pod, old):
                    return True
        known = {one["name"]: one for one in old["spec"].get("ephemeralContainers") or ()}
        return any(
            one["name"] not in known or self._has_changed(one, known[one["name"]], pod, old)
            for one in pod["spec"].get("ephemeralContainers") or ()
        )

    def _has_changed(self, container: Object, before: Object, pod: Object, old: Object) -> bool:
        if container.get("image") != before.get("image"):
            return True
        key = f"{self._seccomp}{container.get('name', '')}"
        return _annotation(pod, key) != _annotation(old, key)


def _annotation(pod: Object, key: str) -> str:
    value: str = (pod["metadata"].get("annotations") or {}).get(key, "")
    return value


_PATHS: Final = {
    Resource("", "podtemplates"): ("template",),
    Resource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        (
            Resource("", "replicationcontrollers"),
            Resource("apps", "daemonsets"),
            Resource("apps", "deployments"),
            Resource("apps", "replicasets"),
            Resource("apps", "statefulsets"),
            Resource("batch", "jobs"),
        ),
        ("spec", "template"),
    ),
}


class PodSecurityOfTemplates(Plugin):
    """PodSecurity for objects with a pod template: warns about templates whose pods would violate a level.

    Never rejects: the enforced level applies to the pods that a controller creates from the template.
    """

    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=_PATHS),)

    def __init__(self, policies: NamespacePolicies, evaluations: Evaluations) -> None:
        self._policies = policies
        self._evaluations = evaluations

    def validate(self, request: AdmissionRequest) -> None:
        if self._evaluations.is_exempt(request):
            return
        found = self._policies.of(request.namespace)
        if found is None or found.admits_every_template:
            return
        template = _template(request)
        if template is not None:
            evaluated = EvaluatedPod(template.get("metadata"), template.get("spec") or {})
            self._evaluations.evaluate(request, found, evaluated, enforced=False)


def _template(request: AdmissionRequest) -> Object | None:
    """The pod template; None for a ReplicationController without one."""
    found = request.object
    for member in _PATHS[request.definition.resource]:
        if found is None:
            return None
        found = found.get(member)
    return found


class PodSecurityOfNamespaces(Plugin):
    """PodSecurity for namespaces: rejects invalid policy labels, and warns if an exempt namespace has a policy.

    Labels that were already invalid stay allowed: an unrelated update must not fail because of them.
    """

    name = "PodSecurity"
    thread_safe = True
    validates = (rule(CREATE, UPDATE, of=(NAMESPACES,)),)

    def __init__(self, labels: PolicyLabels, configuration: PodSecurityConfiguration) -> None:
        self._labels = labels
        self._configuration = configuration

    def validate(self, request: AdmissionRequest) -> None:
        assert request.object is not None
        new = policy_of(self._labels, request.object)
        old = None if request.old is None else policy_of(self._labels, request.old)
        if new.errors and (old is None or new.errors != old.errors):
            raise Invalid(
                "", "Namespace", request.name, [one.cause(request.definition.features) for one in new.errors]
            )
        name = request.object["metadata"].get("name", "")
        changed = old is None or is_tightened(new.policy.enforce, old.policy.enforce)
        if changed and name in self._configuration.exempt_namespaces:
            self._warn_exempt(request, name, new)

    def _warn_exempt(self, request: AdmissionRequest, name: str, found: NamespacePolicy) -> None:
        policy = found.policy
        if policy.fully_privileged or policy.equivalent(self._labels.defaults):
            return
        request.warnings += (
            f'namespace "{name}" is exempt from Pod Security, and the policy ({policy}) will be ignored',
        )


def policy_of(labels: PolicyLabels, namespace: Object) -> NamespacePolicy:
    return labels.policy_of(namespace["metadata"].get("labels"))


MAX_PODS: Final = 3000
MAX_SECONDS: Final = 1.0


class _Offenders(msgspec.Struct):
    """The pods that violate a level for the same reasons."""

    first: str  # in the order of names
    count: int = 0


class _Candidates(msgspec.Struct):
    """The pods of a namespace in the order in which they are evaluated."""

    unique: list[str] = msgspec.field(default_factory=list)
    others: list[str] = msgspec.field(default_factory=list)  # of controllers that have a pod in `unique`
    controllers: set[str] = msgspec.field(default_factory=set)

    def add(self, name: str, row: Row) -> None:
        controller = _controller(row)
        if controller and controller in self.controllers:
            self.others.append(name)
            return
        self.controllers.add(controller)
        self.unique.append(name)


class PodSecurityOfExistingPods(AsyncPlugin):
    """PodSecurity for a namespace that gets a stricter level: warns about existing pods that violate it.

    Nothing happens to these pods; the warnings list those that would be rejected if created again. At most 3,000 pods
    are evaluated, and for at most a second: first the pods without a controller and one pod of each controller, then
    the others. The work runs in its own task, in turns; the namespace is changed when it is done.
    """

    name = "PodSecurity"
    validates = (rule(UPDATE, of=(NAMESPACES,)),)

    def __init__(
        self,
        journal: Journal,
        labels: PolicyLabels,
        standards: Standards,
        configuration: PodSecurityConfiguration,
        max_pods: int = MAX_PODS,
    ) -> None:
        self._journal = journal
        self._pods = journal.type_id("pods")
        self._labels = labels
        self._standards = standards
        self._configuration = configuration
        self._max_pods = max_pods

    def concerns(self, request: AdmissionRequest) -> bool:
        new, old = request.object, request.old
        assert new is not None and old is not None
        if new["metadata"].get("labels") == old["metadata"].get("labels"):
            return False
        if request.name in self._configuration.exempt_namespaces:
            return False
        enforce = policy_of(self._labels, new).policy.enforce
        return is_tightened(enforce, policy_of(self._labels, old).policy.enforce)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None
        enforce = policy_of(self._labels, request.object).policy.enforce
        return Admitted(warnings=tuple(await self._warnings(request.name, enforce)))

    async def _warnings(self, namespace: str, enforce: LevelVersion) -> list[str]:
        deadline = trio.current_time() + MAX_SECONDS
        names = await self._candidates(namespace)
        offenders: dict[str, _Offenders] = {}
        checked = await self._evaluate(namespace, names[: self._max_pods], enforce, offenders, deadline)
        warnings = []
        if checked < len(names):
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {checked} of {len(names)} "
                "existing pods"
            )
        if offenders:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
            )
        return [*warnings, *sorted(_described(one, why) for why, one in offenders.items())]

    async def _candidates(self, namespace: str) -> list[str]:
        """Reads the names in turns, each with its own read transaction."""
        found = _Candidates()
        after: tuple[str, str] | None = None
        while True:
            turn = Turn()
            with self._journal.read() as view:
                for key, name, row in view.rows(self._pods, namespace, after):
                    after = (key, name)
                    if not self._is_exempt(row):
                        found.add(name, row)
                    if turn.over():
                        break
                else:
                    return [*found.unique, *found.others]
            await trio.lowlevel.checkpoint()

    def _is_exempt(self, row: Row) -> bool:
        exempt = self._configuration.exempt_runtime_classes
        if not exempt or b'"runtimeClassName":' not in row.body:
            return False
        return decode(row.body)["spec"].get("runtimeClassName") in exempt

    async def _evaluate(
        self,
        namespace: str,
        names: Sequence[str],
        enforce: LevelVersion,
        offenders: dict[str, _Offenders],
        deadline: float,
    ) -> int:
        """Returns how many pods it evaluated before the deadline, at least one."""
        turn = Turn()
        for index, name in enumerate(names, 1):
            why = await self._reasons(namespace, name, enforce)
            if why:
                one = offenders.setdefault(why, _Offenders(name))
                one.first = min(one.first, name)
                one.count += 1
            if trio.current_time() >= deadline:
                return index
            if turn.over():
                await trio.lowlevel.checkpoint()
                turn = Turn()
        return len(names)

    async def _reasons(self, namespace: str, name: str, enforce: LevelVersion) -> str:
        with self._journal.read() as view:
            row = view.get(self._pods, namespace, name)
        if row is None:
            return ""  # deleted in the meantime
        if len(row.body) < LARGE_BYTES:
            return self._reasons_of(row.body, enforce)
        return await trio.to_thread.run_sync(self._reasons_of, row.body, enforce)

    def _reasons_of(self, body: bytes, enforce: LevelVersion) -> str:
        return reasons(self._standards.violations(enforce, evaluated(decode(body))))


def _controller(row: Row) -> str:
    """The uid of the owner, if an owner is a controller: a pod with one usually has no other owner."""
    if not has_owners(row.facts) or b'"controller":true' not in row.body:
        return ""
    return unpack_uids(row.facts)[1][0]


def _described(offenders: _Offenders, why: str) -> str:
    others = offenders.count - 1
    if not others:
        return f"{offenders.first}: {why}"
    return f"{offenders.first} (and {others} other {'pod' if others == 1 else 'pods'}): {why}"


ALLOW, DENY = "allow", "deny"


class Evaluation(NamedTuple):
    """The labels of one count of evaluations."""

    decision: str
    policy_level: str
    policy_version: str
    mode: str
    request_operation: str
    resource: str  # pod or controller
    subresource: str


class Subject(NamedTuple):
    """The labels of one count of exemptions or errors."""

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
    """Evaluates pods and pod templates against the policy of their namespace, and counts the outcomes.

    The counts are the metrics pod_security_evaluations_total, _exemptions_total and _errors_total of v1.25, by its
    labels.
    """

    def __init__(
        self, standards: Standards, configuration: PodSecurityConfiguration, annotation_prefix: str
    ) -> None:
        self._standards = standards
        self._configuration = configuration
        self._annotation_prefix = annotation_prefix
        self.evaluations = Counts[Evaluation]()
        self.exemptions = Counts[Subject]()
        self.errors = Counts[Subject]()  # invalid policy labels

    def is_exempt(self, request: AdmissionRequest) -> bool:
        """Whether the namespace or the user of a request is exempt."""
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
        """Count a pod in a namespace where no mode has a check: almost every pod of a cluster without labels."""
        key = _PRIVILEGED.get((request.operation, request.subresource))
        if key is None:
            key = self._evaluation(request, ALLOW, LevelVersion(), ENFORCE)
        self.evaluations.add(request, key)
        self._annotate(request, "enforce-policy", "privileged:latest")

    def evaluate(
        self, request: AdmissionRequest, found: NamespacePolicy, pod: EvaluatedPod, *, enforced: bool
    ) -> None:
        """Reject a pod that violates the enforced level; annotate and warn by the other two modes."""
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
        self.evaluations.add(request, self._evaluation(request, decision, level, mode))

    def _evaluation(
        self, request: AdmissionRequest, decision: str, level: LevelVersion, mode: str
    ) -> Evaluation:
        version = _known_version(level, self._standards.newest)
        return Evaluation(decision, level.level, version, mode, *_subject(request))


_PRIVILEGED: Final = {
    (operation, ""): Evaluation(ALLOW, PRIVILEGED, LATEST, ENFORCE, operation.lower(), "pod", "")
    for operation in (CREATE, UPDATE)
}


def _subject(request: AdmissionRequest) -> Subject:
    resource = "pod" if request.definition.plural == "pods" else "controller"
    return Subject(request.operation.lower(), resource, request.subresource)


def _known_version(level: LevelVersion, newest: int) -> str:
    """The version as v1.25 names it in the metric, which must have few different versions."""
    if level.level == PRIVILEGED or level.version == LATEST:
        return LATEST
    return level.version if int(level.version.removeprefix("v1.")) <= newest else "future"


def _name(request: AdmissionRequest) -> str:
    """The name, also one that the server generated."""
    assert request.object is not None
    return request.name or str(request.object["metadata"].get("name", ""))


def _aggregated(found: NamespacePolicy) -> str:
    texts = [f"{one.field}: {one.message}" for one in found.errors]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
