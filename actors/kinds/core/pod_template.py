"""PodTemplate, and the pod template inside every workload.

Workload kinds put `POD_TEMPLATE_SPEC` into their specs, call `set_template_defaults` for defaults,
`without_disabled_fields` to prepare, `pod_template_rules` to validate, and `template_warnings` to warn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from actors.kinds.core.pods import annotations as pod_annotations
from actors.kinds.core.pods import disabled_fields
from actors.kinds.core.pods.keys import PodKeys
from actors.kinds.core.pods.spec import (
    NOTHING_ALLOWED,
    POD_SPEC,
    Allowed,
    SpecRules,
    allowed_by,
    set_spec_defaults,
)
from actors.kinds.core.pods.warnings import PodWarnings
from actors.kinds.declaration.columns import NAME, Column
from actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table, bump_generation
from actors.kinds.declaration.meta import (
    METADATA,
    TEMPLATE_META,
    annotation_rules,
    label_rules,
    metadata_update_rules,
)
from actors.kinds.declaration.workloads import containers_cell, images_cell, labels_or_none
from actors.kinds.features import EXPANDED_DNS
from actors.kinds.schema.fields import Field, Struct
from actors.kinds.validation import FieldErrors, forbidden, name_is_subdomain
from actors.messages import Object
from actors.names import Names

POD_TEMPLATE_SPEC = Struct(
    "core.v1.PodTemplateSpec",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", POD_SPEC, 2),
)
POD_TEMPLATE = Struct(
    "core.v1.PodTemplate",
    METADATA,
    Field("template", POD_TEMPLATE_SPEC, 2),
)

COLUMNS = (
    NAME,
    Column("Containers", "string", "Names of the containers in each pod.", containers_cell),
    Column("Images", "string", "Images of the containers.", images_cell),
    Column(
        "Pod Labels",
        "string",
        "Labels of pods made from it.",
        lambda stored, _: labels_or_none(stored["template"]["metadata"].get("labels", {})),
    ),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="PodTemplate",
        plural="podtemplates",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=POD_TEMPLATE,
        set_defaults=lambda new: set_template_defaults(new["template"]),
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(create_rules, names=names, features=features),
            validate_update=partial(update_rules, names=names, features=features),
            warnings=partial(warnings, names),
        ),
    )


def prepare_create(features: frozenset[str], new: Object) -> None:
    new["metadata"]["generation"] = 1
    new["template"] = without_disabled_fields(new["template"], None, features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    new["template"] = without_disabled_fields(new["template"], old["template"], features)
    bump_generation(new, old, "template")


def create_rules(errors: FieldErrors, new: Object, *, names: Names, features: frozenset[str]) -> None:
    pod_template_rules(errors, new["template"], "template", names, None, features)


def update_rules(
    errors: FieldErrors, new: Object, old: Object, *, names: Names, features: frozenset[str]
) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    pod_template_rules(errors, new["template"], "template", names, old["template"], features)


def warnings(names: Names, new: Object, old: Object | None) -> list[str]:
    if old is not None and new["metadata"]["generation"] == old["metadata"].get("generation"):
        return []
    return template_warnings(new["template"], "template", names)


def set_template_defaults(template: Object) -> None:
    """Set the defaults of a template that depend on more than one field."""
    set_spec_defaults(template["spec"])


def without_disabled_fields(
    template: Object, old: Object | None = None, features: frozenset[str] = frozenset()
) -> Object:
    """The template without fields of disabled features that the old one lacks; a copy if there are any."""
    spec = disabled_fields.without_disabled_fields(
        template["spec"], None if old is None else old["spec"], features
    )
    return template if spec is template["spec"] else {**template, "spec": spec}


def pod_template_rules(
    errors: FieldErrors,
    template: Object,
    field: str,
    names: Names,
    old: Object | None = None,
    features: frozenset[str] = frozenset(),
) -> None:
    """`old` is the template before the update, whose values an update may keep."""
    keys, rules = _rules(names)
    metadata, spec = template["metadata"], template["spec"]
    template_metadata_rules(errors, template, field, names, old)
    allowed = _allowed_on_update(template, old, keys)
    if EXPANDED_DNS in features:
        allowed = replace(allowed, expanded_dns=True)
    rules.validate(errors, spec, f"{field}.spec", allowed=allowed)
    pod_annotations.seccomp_agreement_rules(
        errors, metadata.get("annotations", {}), spec, f"{field}.spec", keys
    )
    if "ephemeralContainers" in spec:
        text = "ephemeral containers not allowed in pod template"
        errors.add(forbidden(f"{field}.spec.ephemeralContainers", text))


def template_metadata_rules(
    errors: FieldErrors, template: Object, field: str, names: Names, old: Object | None = None
) -> None:
    """Rules of the labels and annotations of a template."""
    keys = _rules(names)[0]
    metadata, spec = template["metadata"], template["spec"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    any_cost = _allowed_on_update(template, old, keys).any_deletion_cost
    label_rules(errors, labels, f"{field}.labels")
    annotation_rules(errors, annotations, f"{field}.annotations")
    pod_annotations.annotation_rules(
        errors, annotations, spec, f"{field}.annotations", keys, any_cost=any_cost
    )


def _allowed_on_update(template: Object, old: Object | None, keys: PodKeys) -> Allowed:
    if old is None:
        return NOTHING_ALLOWED
    cost = old["metadata"].get("annotations", {}).get(keys.deletion_cost)
    bad_cost = cost is not None and not pod_annotations.is_cost(cost)
    return replace(allowed_by(template["spec"], old["spec"]), any_deletion_cost=bad_cost)


def template_warnings(template: Object, field: str, names: Names) -> list[str]:
    return _warnings(names).of(template, field)


def spec_warnings(names: Names, new: Object, old: Object | None) -> list[str]:
    """Warnings about the template, on create and whenever the generation has grown."""
    if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    return template_warnings(new["spec"]["template"], "spec.template", names)


@cache  # one per dialect
def _rules(names: Names) -> tuple[PodKeys, SpecRules]:
    keys = PodKeys.of(names)
    return keys, SpecRules(keys)


@cache
def _warnings(names: Names) -> PodWarnings:
    return PodWarnings(names)
