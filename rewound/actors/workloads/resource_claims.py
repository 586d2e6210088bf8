"""The resource claim controller: creates the ResourceClaims of pods from templates, and releases those not in use.

A pod whose claim names a template gets a ResourceClaim of its own, recorded in `status.resourceClaimStatuses`; one that
somebody deletes is created again. The scheduler allocates and reserves claims. This controller reserves only an
allocated claim for a pod that somebody else bound. It removes pods that are gone or done from `status.reservedFor`;
with the last one the claim loses its allocation, and its finalizer. A claim that was made for a pod is deleted when the
pod is done, and by the garbage collector when the pod is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rewound.actors.controllers.loop import RetryLater
from rewound.actors.errors import NotFound, RequestError, Resource
from rewound.actors.kinds.resource.rules import MAX_RESERVED
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.store.document import decode
from rewound.actors.versions.features import ADMIN_ACCESS, PRIORITIZED_LISTS
from rewound.actors.workloads.cache import Key, controller_of, key_of
from rewound.actors.workloads.controller import Parts, WorkloadController
from rewound.actors.workloads.pods import copied, is_finished, is_namespace_terminating, is_terminating

_POD, _CLAIM, _TEMPLATE = "pod/", "claim/", "template/"  # before the name in keys
_LONGEST_BASE: Final = 57  # of a generated name, so that the random letters fit into a label


def claim_finalizer(names: Names) -> str:
    """The finalizer of allocated claims."""
    return names.key("delete-protection", "resource")


def made_claims(pod: Object) -> dict[str, str | None]:
    """The claims that were made for a pod, by their names in its spec; None: a template was found to need none."""
    statuses = pod["status"].get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName") for one in reversed(statuses)}


def claim_name(made: Mapping[str, str | None], wanted: Object) -> str | None:
    """The name of the claim of an entry in `spec.resourceClaims`; `made`: see `made_claims`.

    None if a template was found to need no claim; raises KeyError if the claim has not been created.
    """
    return wanted["resourceClaimName"] if "resourceClaimName" in wanted else made[wanted["name"]]


def claims_of_pod(pod: Object) -> Collection[Key]:
    """The keys of the claims of a pod that are known, for an index."""
    wanted_claims, extended = (
        pod["spec"].get("resourceClaims"),
        pod["status"].get("extendedResourceClaimStatus"),
    )
    if not wanted_claims and extended is None:
        return ()
    namespace = pod["metadata"]["namespace"]
    found, made = set(), made_claims(pod)
    for wanted in wanted_claims or ():
        try:
            name = claim_name(made, wanted)
        except KeyError:
            continue
        if name:
            found.add((namespace, name))
    if extended is not None:
        found.add((namespace, extended["resourceClaimName"]))
    return found


def is_made_for(claim: Object, pod: Object) -> bool:
    """Whether a claim was created from a template for this pod."""
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == pod["metadata"]["uid"]


def is_reserved_for(claim: Object, pod: Object) -> bool:
    return any(
        one["uid"] == pod["metadata"]["uid"]
        for one in claim["status"].get("reservedFor") or ()
        if one["resource"] == "pods" and not one.get("apiGroup")
    )


def is_done(pod: Object) -> bool:
    """Whether no container of a pod runs, or ever will."""
    return is_finished(pod) or (is_terminating(pod) and not pod["spec"].get("nodeName"))


def _templates_of_pod(pod: Object) -> Collection[Key]:
    wanted = pod["spec"].get("resourceClaims")
    if not wanted:
        return ()
    names = {one["resourceClaimTemplateName"] for one in wanted if "resourceClaimTemplateName" in one}
    return [(pod["metadata"]["namespace"], name) for name in names]


class ResourceClaims(WorkloadController):
    name, account, component = "resourceclaim-controller", "resource-claim-controller", "resource_claim"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        group = self.names.group("resource")
        self._template_resource = Resource(group, "resourceclaimtemplate")
        self._annotation = self.names.key("pod-claim-name", "resource")
        self._finalizer = claim_finalizer(self.names)
        self._pods = self.cache.collection("pods")
        self._claims = self.cache.collection(f"resourceclaims.{group}")
        self._templates = self.cache.collection(f"resourceclaimtemplates.{group}")
        self._pods_of_claim = self._pods.index(claims_of_pod)
        self._pods_of_template = self._pods.index(_templates_of_pod)
        self._pods.listen(self._pod_changed)
        self._claims.listen(self._claim_changed)
        self._templates.listen(self._template_changed)

    async def catch_up(self) -> None:
        await self.cache.loaded()
        await self._pods.visit(lambda pod: self._pod_changed(None, pod))
        await self._claims.visit(lambda claim: self._claim_changed(None, claim))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if not pod["spec"].get("resourceClaims") and "extendedResourceClaimStatus" not in pod["status"]:
            return
        if new is None or is_done(pod):
            for namespace, name in claims_of_pod(pod):
                self.queue.add((namespace, _CLAIM + name))
        if new is not None and self._needs_work(pod):
            self._add_pod(pod)

    def _add_pod(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        self.queue.add((namespace, _POD + name))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new if new is not None else old
        assert claim is not None
        namespace, name = key_of(claim)
        self.queue.add((namespace, _CLAIM + name))

    def _template_changed(self, _: Object | None, new: Object | None) -> None:
        if new is not None:
            namespace, name = key_of(new)
            self.queue.add((namespace, _TEMPLATE + name))

    def _needs_work(self, pod: Object) -> bool:
        """Whether a claim of the pod is to be created or reserved."""
        if is_terminating(pod) or is_finished(pod):
            return False
        namespace, made = pod["metadata"]["namespace"], made_claims(pod)
        for wanted in pod["spec"].get("resourceClaims") or ():
            try:
                name = claim_name(made, wanted)
            except KeyError:
                return True
            if name is None:
                continue
            claim = self._claims.get(namespace, name)
            if claim is None:
                if "resourceClaimTemplateName" in wanted:
                    return True
            elif self._is_to_reserve(pod, wanted, claim):
                return True
        return False

    def _is_to_reserve(self, pod: Object, wanted: Object, claim: Object) -> bool:
        """Whether an allocated claim lacks the reservation for a pod that has a node."""
        status = claim["status"]
        return (
            bool(pod["spec"].get("nodeName"))
            and "allocation" in status
            and ("resourceClaimTemplateName" not in wanted or is_made_for(claim, pod))
            and not is_reserved_for(claim, pod)
            and len(status.get("reservedFor") or ()) < MAX_RESERVED
        )

    async def reconcile(self, key: Key) -> None:
        namespace, (kind, _, name) = key[0], key[1].partition("/")
        if kind == "pod":
            await self._reconcile_pod(namespace, name)
            return
        pods_of = self._pods_of_claim if kind == "claim" else self._pods_of_template
        await in_turns(self._find_work(pods_of.get((namespace, name))))
        if kind == "claim":
            await self._reconcile_claim(namespace, name)

    def _find_work(self, pods: Collection[Object]) -> Steps[None]:
        for part in parts_of(pods):
            for pod in part:
                if self._needs_work(pod):
                    self._add_pod(pod)
            yield

    # Pods.

    async def _reconcile_pod(self, namespace: str, name: str) -> None:
        pod = self._pods.get(namespace, name)
        if pod is None or is_terminating(pod) or is_finished(pod):
            return
        created: dict[str, str] = {}
        made = made_claims(pod)
        for wanted in pod["spec"].get("resourceClaims") or ():
            try:
                claim = await self._created_claim(pod, wanted, made)
            except RequestError as refused:
                if not is_namespace_terminating(refused):
                    self._report(pod, wanted, str(refused))
                raise
            except _NotPossible as why:
                self._report(pod, wanted, str(why))
                raise RetryLater from None
            if claim:
                created[wanted["name"]] = claim
        if created:
            await self._record(pod, created)
            pod = self._pods.get(namespace, name)
        if pod is not None:
            await self._reserve_claims(pod)

    def _report(self, pod: Object, wanted: Object, why: str) -> None:
        message = f"PodResourceClaim {wanted['name']}: {why}"
        self.recorder.event(self._pods.definition, pod, "Warning", "FailedResourceClaimCreation", message)

    async def _created_claim(self, pod: Object, wanted: Object, made: Mapping[str, str | None]) -> str:
        """The name of the claim that a pod has now and did not have before; empty: there is nothing new."""
        if "resourceClaimTemplateName" not in wanted:
            return ""
        namespace = pod["metadata"]["namespace"]
        try:
            known = claim_name(made, wanted)
        except KeyError:
            pass
        else:
            claim = self._claims.get(namespace, known) if known else None
            if known is None or (claim is not None and is_made_for(claim, pod)):
                return ""
        # One that was created before the status of the pod could be written.
        for claim in self._claims.controlled_by(pod["metadata"]["uid"]):
            if (claim["metadata"].get("annotations") or {}).get(self._annotation) == wanted["name"]:
                name: str = claim["metadata"]["name"]
                return name
        return await self._create(pod, wanted)

    async def _create(self, pod: Object, wanted: Object) -> str:
        metadata, template_name = pod["metadata"], wanted["resourceClaimTemplateName"]
        template = self._templates.get(metadata["namespace"], template_name)
        if template is None:
            missing = NotFound(self._template_resource, template_name)
            raise _NotPossible(f'resource claim template "{template_name}": {missing}')
        requests = template["spec"]["spec"]["devices"].get("requests") or ()
        if ADMIN_ACCESS not in self.release.features and any(
            (one.get("exactly") or {}).get("adminAccess") for one in requests
        ):
            raise _NotPossible("admin access is requested, but the feature is disabled")
        if PRIORITIZED_LISTS not in self.release.features and any(
            one.get("firstAvailable") for one in requests
        ):
            raise _NotPossible(
                "template includes a prioritized list of subrequests, but the feature is disabled"
            )
        described = template["spec"].get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        new: Object = {
            "metadata": {
                "generateName": _base_of_name(metadata["name"], wanted["name"]),
                "annotations": {**(described.get("annotations") or {}), self._annotation: wanted["name"]},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": copied(template["spec"]["spec"]),
            "status": {},
        }
        if described.get("labels"):
            new["metadata"]["labels"] = dict(described["labels"])
        try:
            body = await self.client.create(self._claims.definition, metadata["namespace"], new)
        except RequestError as refused:
            if is_namespace_terminating(refused):
                raise
            raise _NotPossible(f"create ResourceClaim : {refused}") from refused
        name: str = decode(body)["metadata"]["name"]
        return name

    async def _record(self, pod: Object, created: dict[str, str]) -> None:
        """Write the names of created claims into the status of the pod, beside those that are there."""
        namespace, name = key_of(pod)
        statuses = pod["status"].get("resourceClaimStatuses") or ()
        names = {one["name"]: one["resourceClaimName"] for one in statuses if "resourceClaimName" in one}
        definition = self._pods.definition
        applied = {
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "status": {
                "resourceClaimStatuses": [
                    {"name": one, "resourceClaimName": claim} for one, claim in {**names, **created}.items()
                ]
            },
        }
        await self.client.apply(definition, namespace, name, applied, "status")

    async def _reserve_claims(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        made = made_claims(pod)
        for wanted in pod["spec"].get("resourceClaims") or ():
            try:
                claim = self._claims.get(namespace, claim_name(made, wanted) or "")
            except KeyError:
                continue
            if claim is None or not self._is_to_reserve(pod, wanted, claim):
                continue
            changed = copied(claim)
            consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
            changed["status"]["reservedFor"] = [*(changed["status"].get("reservedFor") or ()), consumer]
            await self.client.replace(self._claims.definition, changed, "status")

    # Claims.

    async def _reconcile_claim(self, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        if claim is None:
            return
        reserved = claim["status"].get("reservedFor") or []
        remaining = [one for one in reserved if self._may_run(namespace, one)]
        is_protected = self._finalizer in (claim["metadata"].get("finalizers") or ())
        if len(remaining) < len(reserved) or (
            not remaining and is_protected and is_terminating(claim) and "allocation" in claim["status"]
        ):
            claim = await self._release(claim, remaining, deallocate=is_protected and not remaining)
            ends = len(remaining) < len(reserved)
        else:
            ends = is_terminating(claim)
        if is_protected and ends and not remaining and "allocation" not in claim["status"]:
            await self._remove_finalizer(claim)
        if not remaining:
            await self._delete_if_unused(claim)

    def _may_run(self, namespace: str, consumer: Object) -> bool:
        """Whether a reservation is still needed; those of unknown kinds are."""
        if consumer["resource"] != "pods" or consumer.get("apiGroup"):
            return True
        pod = self._pods.get(namespace, consumer["name"])
        return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not is_done(pod)

    async def _release(self, claim: Object, remaining: list[Object], *, deallocate: bool) -> Object:
        changed = copied(claim)
        status = changed["status"]
        if remaining:
            status["reservedFor"] = remaining
        else:
            status.pop("reservedFor", None)
        if deallocate:
            status.pop("allocation", None)
        return decode(await self.client.replace(self._claims.definition, changed, "status"))

    async def _remove_finalizer(self, claim: Object) -> None:
        changed = copied(claim)
        finalizers = [one for one in changed["metadata"].get("finalizers") or () if one != self._finalizer]
        if finalizers:
            changed["metadata"]["finalizers"] = finalizers
        else:
            changed["metadata"].pop("finalizers", None)
        await self.client.replace(self._claims.definition, changed)

    async def _delete_if_unused(self, claim: Object) -> None:
        """Delete a claim that was made for a pod which is done; if the pod is gone, garbage collection does."""
        owner = controller_of(claim)
        if owner is None or (owner["apiVersion"], owner["kind"]) != ("v1", "Pod"):
            return
        namespace, name = key_of(claim)
        pod = self._pods.get(namespace, owner["name"])
        if pod is None or (pod["metadata"]["uid"] == owner["uid"] and not is_done(pod)):
            return
        try:
            await self.client.delete(
                self._claims.definition, namespace, name, DeleteOptions(uid=claim["metadata"]["uid"])
            )
        except NotFound:
            return


class _NotPossible(Exception):
    """A claim cannot be created, for a reason that an Event reports."""


def _base_of_name(pod: str, claim: str) -> str:
    """What the name of a claim of a pod starts with. Of long names each loses the same part."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    shortened = pod[: len(pod) * _LONGEST_BASE // len(whole)]
    return f"{shortened}-{claim[: len(claim) * _LONGEST_BASE // len(whole)]}"
