"""Templates of which there are to be several pods alike: what replica sets and deployments ask of them."""

from __future__ import annotations

from actors.kinds.core.pod_template import pod_template_rules
from actors.kinds.core.pods.volumes import shared_disk_rules
from actors.kinds.declaration.workloads import found_rules, lasting_rules, selector_rules, usable
from actors.kinds.validation.checks import FieldError, invalid
from actors.messages import Object
from actors.names import Names


def selected_template_rules(names: Names, spec: Object, old: Object | None) -> list[FieldError]:
    """The selector, and then the template that it must find."""
    selector = spec["selector"]
    errors = selector_rules(selector, "spec.selector", "empty selector is invalid for deployment")
    if not usable(selector):
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    return errors + _template_rules(names, spec, None if old is None else old["template"])


def _template_rules(names: Names, spec: Object, old: Object | None) -> list[FieldError]:
    field, template, selector = "spec.template", spec["template"], spec["selector"]
    errors = found_rules(selector, template, field) if selector != {} else []
    errors += pod_template_rules(template, field, names, old)
    if spec.get("replicas", 0) > 1:
        errors += shared_disk_rules(template["spec"].get("volumes", []), f"{field}.spec.volumes")
    return errors + lasting_rules(template, field, "ReplicaSet")
