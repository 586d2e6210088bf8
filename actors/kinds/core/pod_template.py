"""PodTemplate, and the template of pods that every workload has inside it.

Workload kinds put `POD_TEMPLATE_SPEC` into their specs, call `fill_template` where they fill in defaults, and
judge with `pod_template_rules`.
"""

from __future__ import annotations

from actors.kinds.checks import FieldError
from actors.kinds.core.pods.spec import POD_SPEC
from actors.kinds.fields import Field, Struct
from actors.kinds.meta import METADATA, TEMPLATE_META
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


def fill_template(template: Object) -> None:
    """Defaults that look at more than one field, of the pods that a template makes."""


def pod_template_rules(template: Object, field: str, names: Names) -> list[FieldError]:
    return []
