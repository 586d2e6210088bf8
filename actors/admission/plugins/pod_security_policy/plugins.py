"""PodSecurityPolicy of v1.24: a pod must satisfy a policy that its creator or its service account may `use`.

Two plugins with one name, because a plugin that waits for an authorizer has one step. The first one fills in, when a
pod is created, what a policy requires: of the policies by name, the first one that the pod satisfies as it is, or else
the first one that it satisfies with these values. The second one refuses pods that satisfy no policy, also when they
are updated, and starts with the policy that the annotation `psp` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from actors.access.attributes import Attributes
from actors.access.authorize import Authorizer, Decision
from actors.admission.cached_objects import CachedObjects
from actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from actors.admission.plugins.pod_security_policy.checks import check_pod
from actors.admission.plugins.pod_security_policy.defaults import filled
from actors.admission.plugins.pod_security_policy.policy import Policy, Unusable, parse_policy
from actors.admission.refusals import forbidden
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Forbidden, Resource
from actors.identity import User
from actors.kinds.validation.field_errors import FieldError, collect
from actors.messages import Object
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal

PODS: Final = Resource("", "pods")
POLICIES: Final = Resource("policy", "podsecuritypolicies")
GROUPS: Final = ("policy", "extensions")  # rights may name the group in which policies once were
NAME: Final = "PodSecurityPolicy"
# An update that changes only these is made by the garbage collector.
COLLECTED: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def pod_security_policy(
    names: Names, journal: Journal, feed: Feed, authorizer: Authorizer
) -> tuple[Plugin, Plugin]:
    policies = _Policies(names, journal, feed, authorizer)
    return PodSecurityPolicyDefaults(names, policies), PodSecurityPolicyCheck(names, policies)


class PodSecurityPolicyDefaults(AsyncPlugin):
    name = NAME
    mutates = (rule(CREATE, of=(PODS,)),)

    def __init__(self, names: Names, policies: _Policies) -> None:
        self._policies = policies
        self._annotation = names.key("psp")
        self._audit_key = f"{names.group('podsecuritypolicy.policy')}/admit-policy"

    async def admit(self, request: AdmissionRequest) -> Admitted:
        name, pod = await self._chosen(request)
        request.annotate(self._audit_key, name)
        return Admitted(self._annotated(pod, name))

    async def _chosen(self, request: AdmissionRequest) -> tuple[str, Object]:
        """The policy, and the pod with what it fills in."""
        pod = request.object
        assert pod is not None
        changing: tuple[str, Object] | None = None
        errors: dict[str, list[FieldError]] = {}
        for name, policy in self._policies.ordered(request):
            changed, found = await self._policies.evaluate(policy, request)
            if found:
                errors[name] = found
            elif (changing is None or changed == pod) and await self._policies.may_use(name, request):
                if changed == pod:
                    return name, pod
                changing = name, changed
        if changing is None:
            raise await self._policies.refusal(request, "unable to admit pod", errors)
        return changing

    def _annotated(self, pod: Object, policy: str) -> Object:
        metadata = pod["metadata"]
        annotations = dict(sorted({**metadata.get("annotations", {}), self._annotation: policy}.items()))
        return {**pod, "metadata": {**metadata, "annotations": annotations}}


class PodSecurityPolicyCheck(AsyncPlugin):
    name = NAME
    validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names, policies: _Policies) -> None:
        self._policies = policies
        self._annotation = names.key("psp")
        self._audit_key = f"{names.group('podsecuritypolicy.policy')}/validate-policy"

    def concerns(self, request: AdmissionRequest) -> bool:
        return request.old is None or _compared(request.object) != _compared(request.old)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        pod = request.object
        assert pod is not None
        first = pod["metadata"].get("annotations", {}).get(self._annotation, "")
        errors: dict[str, list[FieldError]] = {}
        for name, policy in self._policies.ordered(request, first):
            changed, found = await self._policies.evaluate(policy, request)
            if found:
                errors[name] = found
            elif changed == pod and await self._policies.may_use(name, request):
                request.annotate(self._audit_key, name)
                return Admitted()
        raise await self._policies.refusal(request, "unable to validate pod", errors)


class _Policies:
    """The policies of the cluster, and who may use them."""

    def __init__(self, names: Names, journal: Journal, feed: Feed, authorizer: Authorizer) -> None:
        self._names = names
        self._authorizer = authorizer
        self._policies = CachedObjects(POLICIES, journal, feed, self._usable)

    def ordered(self, request: AdmissionRequest, first: str = "") -> list[tuple[str, Policy]]:
        """By name, except the first one. Forbidden if there is none."""
        policies = sorted(self._policies.all().items(), key=lambda one: (one[0] != first, one[0]))
        if not policies:
            raise forbidden(request, f"{NAME}: no providers available to validate pod request")
        return policies

    async def evaluate(self, policy: Policy, request: AdmissionRequest) -> tuple[Object, list[FieldError]]:
        """The pod with what the policy fills in, and what violates the policy even then."""
        pod = request.object
        assert pod is not None
        if request.in_thread:  # a large pod
            return await trio.to_thread.run_sync(self._evaluate, policy, pod)
        await trio.lowlevel.checkpoint()  # there may be many policies
        return self._evaluate(policy, pod)

    def _evaluate(self, policy: Policy, pod: Object) -> tuple[Object, list[FieldError]]:
        changed = filled(policy, pod)
        return changed, collect(check_pod, self._names, policy, changed)

    async def refusal(
        self, request: AdmissionRequest, why: str, errors: dict[str, list[FieldError]]
    ) -> Forbidden:
        """Shows the errors of the policies that may be used, and nothing of the others."""
        shown = [
            str(error.cause())
            for name, found in sorted(errors.items())
            if await self.may_use(name, request)
            for error in found
        ]
        return forbidden(request, f"{NAME}: {why}: [{' '.join(shown)}]")

    async def may_use(self, policy: str, request: AdmissionRequest) -> bool:
        for user in self._users(request):
            for group in GROUPS:
                namespace = request.namespace
                wanted = Attributes(user, "use", group, "*", POLICIES.plural, "", namespace, policy)
                decision = self._authorizer.authorize(wanted)
                if not isinstance(decision, Decision):
                    decision = await decision
                if decision.allowed:
                    return True
        return request.context is None or request.context.caller is None  # the server itself

    def _users(self, request: AdmissionRequest) -> Iterable[User]:
        assert request.object is not None
        account = request.object["spec"].get("serviceAccountName")
        if account:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{request.namespace}")
            yield User(f"system:serviceaccount:{request.namespace}:{account}", groups=groups)
        if request.context is not None and request.context.caller is not None:
            yield request.context.caller

    def _usable(self, stored: Object) -> Policy | None:
        try:
            return parse_policy(self._names, stored)
        except Unusable:
            return None


def _compared(pod: Object | None) -> Object:
    assert pod is not None
    metadata = {key: value for key, value in pod["metadata"].items() if key not in COLLECTED}
    return {**pod, "metadata": metadata}
