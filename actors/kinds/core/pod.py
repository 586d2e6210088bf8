"""Pod: containers that run together on one node.

Almost nothing of the spec changes after creation (`pods/changes`): the `ephemeralcontainers` subresource adds
containers for debugging, `binding` sets the node, and `status` reports the state. A deleted pod on a node is removed
when its grace period is over.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from actors.kinds.core.binding import binding
from actors.kinds.core.connect_options import connecting
from actors.kinds.core.pods.annotations import (
    annotation_rules,
    annotation_update_rules,
    is_cost,
    seccomp_agreement_rules,
    with_profiles,
)
from actors.kinds.core.pods.cells import COLUMNS, row_conditions
from actors.kinds.core.pods.changes import added_container_rules, spec_update_rules
from actors.kinds.core.pods.containers import image_whitespace_rules, set_request_defaults
from actors.kinds.core.pods.disabled_fields import without_disabled_fields
from actors.kinds.core.pods.eviction import eviction
from actors.kinds.core.pods.keys import PodKeys
from actors.kinds.core.pods.projections import tokens_of
from actors.kinds.core.pods.qos import qos_class
from actors.kinds.core.pods.spec import (
    NOTHING_ALLOWED,
    POD_SPEC,
    Allowed,
    SpecRules,
    allowed_by,
    set_spec_defaults,
)
from actors.kinds.core.pods.status import POD_STATUS, set_status_defaults, status_update_rules
from actors.kinds.core.pods.warnings import PodWarnings
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Strategy,
    Subresource,
    Table,
)
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.features import EXPANDED_DNS
from actors.kinds.schema.fields import Field, Struct
from actors.kinds.validation import FieldErrors, forbidden, name_is_subdomain
from actors.messages import Object
from actors.names import Names

POD = Struct("core.v1.Pod", METADATA, Field("spec", POD_SPEC, 2), Field("status", POD_STATUS, 3))


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    pods = Pods(names, features)
    return Definition(
        group="",
        version="v1",
        kind="Pod",
        plural="pods",
        names=DiscoveryNames(short_names=("po",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=POD,
        set_defaults=pods.set_defaults,
        subresources=(
            connecting("attach", "PodAttachOptions"),
            binding(names),
            Subresource(
                name="ephemeralcontainers",
                prepare=pods.prepare_ephemeral_containers,
                validate=pods.ephemeral_container_rules,
            ),
            eviction(names),
            connecting("exec", "PodExecOptions"),
            Subresource(name="log", kind="Pod", verbs=("get",), forwarded=True),
            connecting("portforward", "PodPortForwardOptions"),
            connecting("proxy", "PodProxyOptions"),
            Subresource(
                name="status",
                prepare=prepare_status,
                validate=pods.status_rules,
                reset_fields=("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
            ),
        ),
        deletion=Deletion(returns_object=True, grace_period=grace_period_seconds),
        selection=Selection(fields=SELECTABLE, stored_labels=SELECTOR_NAMES, own_label_conversion=True),
        table=Table(COLUMNS, row_conditions=row_conditions),
        strategy=Strategy(
            prepare_for_create=pods.prepare_create,
            prepare_for_update=pods.prepare_update,
            validate_create=pods.rules,
            validate_update=pods.update_rules,
            warnings=pods.warnings,
        ),
    )


def _text_at(section: str, part: str, stored: Object) -> str:
    return str(stored[section].get(part, ""))


_SELECTABLE_FIELDS: Final = (
    *(("spec", part) for part in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")),
    *(("status", part) for part in ("nominatedNodeName", "phase", "podIP")),
)
SELECTABLE: Final = {
    f"{section}.{part}": partial(_text_at, section, part) for section, part in _SELECTABLE_FIELDS
}
# Old clients select by spec.host; status.podIPs is a known label without a stored value.
SELECTOR_NAMES: Final = {
    **{label: label for label in SELECTABLE},
    "spec.host": "spec.nodeName",
    "status.podIPs": "status.podIPs",
}


class Pods:
    """Defaults and rules of pods in one dialect, with the alpha `features` that are on."""

    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self._keys = PodKeys.of(names)
        self._rules = SpecRules(self._keys)
        self._warnings = PodWarnings(names)
        self._features = features

    def set_defaults(self, new: Object) -> None:
        spec = new["spec"]
        if "enableServiceLinks" not in spec:
            _set_in_order(spec, "enableServiceLinks", True)
        set_spec_defaults(spec)
        set_request_defaults(spec["containers"] or [])
        set_request_defaults(spec.get("initContainers", []))
        if new["status"]:
            set_status_defaults(new)
        annotations = new["metadata"].get("annotations", {})
        for key in self._keys.dropped.intersection(annotations):
            del annotations[key]

    def prepare_create(self, new: Object) -> None:
        spec = new["spec"]
        new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        spec = without_disabled_fields(spec, None, self._features)
        new["spec"] = with_profiles(spec, new["metadata"].get("annotations", {}), self._keys)

    def prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = old["status"]
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)

    def prepare_ephemeral_containers(self, new: Object, old: Object) -> None:
        """Keep the old pod except for its ephemeral containers, which the client sent."""
        added = new["spec"].get("ephemeralContainers")
        spec = {part: value for part, value in old["spec"].items() if part != "ephemeralContainers"}
        if added:
            spec["ephemeralContainers"] = added
        new.clear()
        new.update({**old, "metadata": dict(old["metadata"]), "spec": POD_SPEC.arranged(spec)})
        new["spec"] = without_disabled_fields(new["spec"], old["spec"], self._features)

    def rules(self, errors: FieldErrors, new: Object) -> None:
        spec, annotations = new["spec"], new["metadata"].get("annotations", {})
        self._pod_rules(errors, new, self._allowed_on_create())
        if "ephemeralContainers" in spec:
            errors.add(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        seccomp_agreement_rules(errors, annotations, spec, "spec", self._keys)

    def update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        self._update_rules(errors, new, old)
        spec_update_rules(errors, new["spec"], old["spec"])

    def ephemeral_container_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        part = "ephemeralContainers"
        self._update_rules(errors, new, old)
        added_container_rules(errors, new["spec"].get(part, []), old["spec"].get(part, []))

    def status_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        self._annotation_update_rules(errors, new, old, self._allowed_on_update(new, old))
        status_update_rules(errors, new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        """Warn on create only: controllers make the later updates, and nobody reads their warnings."""
        return self._warnings.of(new) if old is None else []

    def _update_rules(self, errors: FieldErrors, new: Object, old: Object) -> None:
        allowed = self._allowed_on_update(new, old)
        metadata_update_rules(errors, new["metadata"], old["metadata"])
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        self._pod_rules(errors, new, allowed)
        self._annotation_update_rules(errors, new, old, allowed)

    def _pod_rules(self, errors: FieldErrors, pod: Object, allowed: Allowed) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self._annotation_rules(errors, pod, allowed)
        self._rules.validate(errors, spec, "spec", metadata.get("name", ""), allowed)
        if not spec.get("serviceAccountName"):
            text = "must not be specified when serviceAccountName is not set"
            tokens = tokens_of(spec.get("volumes", []), "spec.volumes")
            for path, _ in tokens:
                errors.add(forbidden(path, text))
        for part in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(part) or ()):
                image = container.get("image", "")
                if image != image.strip():
                    image_whitespace_rules(errors, container, f"spec.{part}[{index}]")

    def _annotation_rules(self, errors: FieldErrors, pod: Object, allowed: Allowed) -> None:
        annotations = pod["metadata"].get("annotations", {})
        annotation_rules(
            errors,
            annotations,
            pod["spec"],
            "metadata.annotations",
            self._keys,
            any_cost=allowed.any_deletion_cost,
        )

    def _annotation_update_rules(
        self, errors: FieldErrors, new: Object, old: Object, allowed: Allowed
    ) -> None:
        now, before = (pod["metadata"].get("annotations", {}) for pod in (new, old))
        annotation_update_rules(errors, now, before, "metadata.annotations", self._keys)
        self._annotation_rules(errors, new, allowed)

    def _allowed_on_create(self) -> Allowed:
        return NOTHING_ALLOWED if EXPANDED_DNS not in self._features else Allowed(expanded_dns=True)

    def _allowed_on_update(self, new: Object, old: Object) -> Allowed:
        """Invalid values of the old pod that the update may keep."""
        cost = old["metadata"].get("annotations", {}).get(self._keys.deletion_cost)
        allowed = allowed_by(new["spec"], old["spec"])
        return replace(
            allowed,
            expanded_dns=allowed.expanded_dns or EXPANDED_DNS in self._features,
            any_deletion_cost=cost is not None and not is_cost(cost),
        )


_AFTER_SERVICE_LINKS: Final = (
    *("preemptionPolicy", "overhead", "topologySpreadConstraints", "setHostnameAsFQDN", "os", "hostUsers"),
)


def _set_in_order(spec: Object, part: str, value: Any) -> None:
    spec[part] = value
    for later in _AFTER_SERVICE_LINKS:
        if later in spec:
            spec[later] = spec.pop(later)


def prepare_status(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]
    # Kubelets of old versions send invalid owner references.
    new["metadata"].pop("ownerReferences", None)
    if "ownerReferences" in old["metadata"]:
        new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]


def grace_period_seconds(stored: Object, requested: int | None) -> int:
    """Seconds until a deleted pod is removed; 0 for a pod that has no node or has terminated."""
    if not stored["spec"].get("nodeName") or stored["status"].get("phase") in ("Failed", "Succeeded"):
        return 0
    seconds: int = stored["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
    return 1 if seconds < 0 else seconds
