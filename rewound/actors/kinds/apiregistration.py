"""The apiregistration group: APIService, one version of an API group and the server that serves it.

Its name is `version.group`. An APIService without a service is local: this server serves it itself, so it is
available as soon as it is created.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.config_map import decoded_size
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column
from rewound.actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Strategy,
    Table,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, BYTES, INT32, STRING, TIME, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    CheckName,
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    invalid,
    name_is_path_segment,
    not_supported,
    port_number,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

MAX_GROUP_PRIORITY: Final = 20000
MAX_VERSION_PRIORITY: Final = 1000
STATUSES: Final = ("True", "False", "Unknown")

SERVICE_REFERENCE = Struct(
    "apiregistration.v1.ServiceReference",
    Field("namespace", STRING, 1),
    Field("name", STRING, 2),
    Field("port", INT32, 3, pointer=True, default=443),
)
SPEC = Struct(
    "apiregistration.v1.APIServiceSpec",
    Field("service", SERVICE_REFERENCE, 1, pointer=True),
    Field("group", STRING, 2),
    Field("version", STRING, 3),
    Field("insecureSkipTLSVerify", BOOL, 4),
    Field("caBundle", BYTES, 5, list_type="atomic"),
    Field("groupPriorityMinimum", INT32, 7, required=True, always=True),
    Field("versionPriority", INT32, 8, required=True, always=True),
)
CONDITION = Struct(
    "apiregistration.v1.APIServiceCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
STATUS = Struct(
    "apiregistration.v1.APIServiceStatus",
    Field(
        "conditions",
        ListOf(CONDITION),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
API_SERVICE = Struct(
    "apiregistration.v1.APIService", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def _service_cell(stored: Object, _: int) -> str:
    service = stored["spec"].get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available_cell(stored: Object, _: int) -> str:
    for condition in stored["status"].get("conditions", ()):
        if condition["type"] == "Available":
            why = "" if condition["status"] == "True" else condition.get("reason", "")
            return f"{condition['status']} ({why})" if why else str(condition["status"])
    return "Unknown"


COLUMNS: Final = (
    NAME,
    Column("Service", "string", "Service that serves the group version, or Local.", _service_cell),
    Column("Available", "string", "Status of the Available condition.", _available_cell),
    AGE,
)


def declare(names: Names) -> tuple[Definition, ...]:
    api_service = Definition(
        group=names.group("apiregistration"),
        version="v1",
        kind="APIService",
        plural="apiservices",
        names=DiscoveryNames(categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_path_segment,
        fields=API_SERVICE,
        subresources=(status_subresource(status_rules),),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            validates_metadata=True,
            prepare_for_create=prepare_create,
            prepare_for_update=keep_status,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
    return (api_service,)


def prepare_create(new: Object) -> None:
    new["status"] = {} if "service" in new["spec"] else {"conditions": [_local_condition(new["metadata"])]}


def _local_condition(metadata: Object) -> Object:
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": metadata["creationTimestamp"],
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


def rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    group, version = spec.get("group", ""), spec.get("version", "")
    metadata_rules(
        errors,
        new["metadata"],
        namespaced=False,
        check_name=_named(f"{version}.{group}"),
        known_finalizers=False,
    )
    if group:
        errors.add_each("spec.group", group, dns_subdomain(group))
    elif version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.add(required("spec.group", text))
    errors.add_each("spec.version", version, dns_1035_label(version))
    for part, maximum in (
        ("groupPriorityMinimum", MAX_GROUP_PRIORITY),
        ("versionPriority", MAX_VERSION_PRIORITY),
    ):
        if not 0 < spec[part] <= maximum:
            text = f"must be positive and less than {maximum}"
            errors.add(invalid(f"spec.{part}", spec[part], text))
    if "service" in spec:
        _remote_rules(errors, spec)
    else:
        _local_rules(errors, spec)


def _named(expected: str) -> CheckName:
    return partial(_check_name, expected)


def _check_name(expected: str, name: str, _: bool) -> list[str]:
    wrong = name_is_path_segment(name, False)
    if wrong or name == expected:
        return wrong
    return [f'must be `spec.version+"."+spec.group`: {quoted_start(expected)}']


def _local_rules(errors: FieldErrors, spec: Object) -> None:
    if "caBundle" in spec:
        size = f"{decoded_size([spec['caBundle']])} bytes"
        errors.add(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        errors.add(invalid("spec.insecureSkipTLSVerify", True, text))


def _remote_rules(errors: FieldErrors, spec: Object) -> None:
    service = spec["service"]
    for part in ("namespace", "name"):
        if not service.get(part):
            errors.add(required(f"spec.service.{part}"))
    wrong = port_number(service["port"])
    if wrong:
        errors.add(invalid("spec.service.port", service["port"], f"port is not valid: {', '.join(wrong)}"))
    if spec.get("insecureSkipTLSVerify") and "caBundle" in spec:
        errors.add(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    rules(errors, new)


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    for index, condition in enumerate(new["status"].get("conditions", ())):
        if condition["status"] not in STATUSES:
            field = f"status.conditions[{index}].status"
            errors.add(not_supported(field, condition["status"], STATUSES))
