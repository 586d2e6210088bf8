"""Validation of selector and pod template that ReplicaSet and Deployment share."""

from __future__ import annotations

from actors.kinds.core.pod_template import pod_template_rules
from actors.kinds.core.pods.volumes import shared_disk_rules
from actors.kinds.declaration.workloads import (
    always_restart_rules,
    selector_compiles,
    selector_matches_rules,
    selector_rules,
)
from actors.kinds.validation import FieldErrors, invalid
from actors.messages import Object
from actors.names import Names


def selected_template_rules(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    """Validate the selector, and then the template, whose labels the selector must match."""
    selector = spec["selector"]
    selector_rules(errors, selector, "spec.selector", "empty selector is invalid for deployment")
    if not selector_compiles(selector):
        errors.add(invalid("spec.selector", selector, "invalid label selector"))
    else:
        _template_rules(errors, names, spec, None if old is None else old["template"])


def _template_rules(errors: FieldErrors, names: Names, spec: Object, old: Object | None) -> None:
    field, template, selector = "spec.template", spec["template"], spec["selector"]
    if selector != {}:
        selector_matches_rules(errors, selector, template, field)
    pod_template_rules(errors, template, field, names, old)
    if spec.get("replicas", 0) > 1:
        shared_disk_rules(errors, template["spec"].get("volumes", []), f"{field}.spec.volumes")
    always_restart_rules(errors, template, field, "ReplicaSet")
