"""The internal.apiserver group: StorageVersion, in which the servers of a cluster say how they store a resource."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Strategy,
    Table,
    keep_status,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import INT64, STRING, STRINGS, TIME, Before, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    duplicate,
    explained,
    invalid,
    qualified_name,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

_SINCE_1_36, _UNTIL_1_35 = (Before("1.36", required=False),), (Before("1.36", required=True),)
SERVER_STORAGE_VERSION = Struct(
    "apiserverinternal.v1alpha1.ServerStorageVersion",
    Field("apiServerID", STRING, 1, required=True, before=_SINCE_1_36),
    Field("encodingVersion", STRING, 2, required=True, before=_SINCE_1_36),
    Field("decodableVersions", STRINGS, 3, list_type="set", required=True, before=_SINCE_1_36),
    Field("servedVersions", STRINGS, 4, list_type="set", since="1.28"),
)
CONDITION = Struct(
    "apiserverinternal.v1alpha1.StorageVersionCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("observedGeneration", INT64, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5, required=True, always=True),
    Field("message", STRING, 6, required=True),
)
STATUS = Struct(
    "apiserverinternal.v1alpha1.StorageVersionStatus",
    Field("storageVersions", ListOf(SERVER_STORAGE_VERSION), 1, list_type="map", list_keys=("apiServerID",)),
    Field("commonEncodingVersion", STRING, 2, pointer=True),
    Field("conditions", ListOf(CONDITION), 3, list_type="map", list_keys=("type",)),
)
STORAGE_VERSION = Struct(
    "apiserverinternal.v1alpha1.StorageVersion",
    replace(METADATA, required=True, before=_SINCE_1_36),
    Field("spec", Struct("apiserverinternal.v1alpha1.StorageVersionSpec"), 2, before=_UNTIL_1_35),
    Field("status", STATUS, 3, before=_UNTIL_1_35),
)


def declare(names: Names) -> tuple[Definition, ...]:
    versions = Column("StorageVersions", "string", "How each server stores it.", _versions_cell)
    common = Column(
        "CommonEncodingVersion",
        "string",
        "The version that all servers store.",
        at("status", "commonEncodingVersion", missing="<unset>"),
    )
    definition = Definition(
        group=names.group("internal.apiserver"),
        version="v1alpha1",
        kind="StorageVersion",
        plural="storageversions",
        namespaced=False,
        check_name=name_is_group_and_resource,
        fields=STORAGE_VERSION,
        subresources=(status_subresource(lambda errors, new, _: _rules(errors, new)),),
        table=Table((NAME, common, versions, AGE)),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=_without_status,
            prepare_for_update=keep_status,
        ),
        on_by_default=False,
    )
    return (definition,)


def _without_status(new: Object) -> None:
    new["status"] = {}


def name_is_group_and_resource(name: str, _: bool) -> list[str]:
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    return [
        *(f"the group segment {text}" for text in dns_subdomain(group)),
        *(f"the resource segment {text}" for text in dns_1035_label(resource)),
    ]


def _rules(errors: FieldErrors, new: Object) -> None:
    status, field = new["status"], "status.storageVersions"
    servers = status.get("storageVersions", ())
    seen: set[str] = set()
    for index, one in enumerate(servers):
        if one.get("apiServerID", "") in seen:
            errors.add(duplicate(f"{field}[{index}].apiServerID", one.get("apiServerID", "")))
        seen.add(one.get("apiServerID", ""))
        _server_rules(errors, one, f"{field}[{index}]")
    _common_rules(errors, {one.get("encodingVersion", "") for one in servers}, status)
    _condition_rules(errors, status.get("conditions", ()))


def _server_rules(errors: FieldErrors, server: Object, field: str) -> None:
    name, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable = server.get("decodableVersions", [])
    errors.add_each(f"{field}.apiServerID", name, dns_subdomain(name))
    check = partial(_version_rules, errors)
    check(encoding, f"{field}.encodingVersion")
    for index, one in enumerate(decodable):
        check(one, f"{field}.decodableVersions[{index}]")
    if encoding not in decodable:
        text = f"decodableVersions must include encodingVersion {encoding}"
        errors.add(invalid(f"{field}.decodableVersions", decodable, text))
    for index, one in enumerate(server.get("servedVersions", ())):
        check(one, f"{field}.servedVersions[{index}]")
        if one not in decodable:
            listed = f"[{' '.join(decodable)}]"
            text = f"individual served version : {one} must be included in decodableVersions : {listed}"
            errors.add(invalid(f"{field}.servedVersions[{index}]", one, text))


def _version_rules(errors: FieldErrors, value: str, field: str) -> None:
    wrong = _version_errors(value)
    if wrong:
        errors.add(invalid(field, value, ",".join(wrong)))


def _version_errors(value: str) -> list[str]:
    group, slash, version = value.rpartition("/")
    if "/" in group:
        label = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', "
        label += "start with an alphabetic character, and end with an alphanumeric character"
        text = explained(label, "[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123")
        return [
            f"an apiVersion is {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
        ]
    wrong: list[str] = []
    if slash and not group:
        wrong.append("group part: must be non-empty")
    elif slash:
        wrong += [f"group part: {text}" for text in dns_subdomain(group)]
    if not version:
        return [*wrong, "version part: must be non-empty"]
    return wrong + [f"version part: {text}" for text in dns_1035_label(version)]


def _common_rules(errors: FieldErrors, encodings: set[str], status: Object) -> None:
    given, field = status.get("commonEncodingVersion"), "status.commonEncodingVersion"
    common = next(iter(encodings)) if len(encodings) == 1 else None
    if common == given:
        return
    if common is None:
        text = "should be nil if servers do not agree on the same encoding version, or if there is no server "
        errors.add(invalid(field, given, f"{text}reporting the supported versions yet"))
    elif given is None:
        errors.add(invalid(field, given, f"the common encoding version is {common}"))
    else:
        errors.add(invalid(field, given, f"the actual common encoding version is {common}"))


def _condition_rules(errors: FieldErrors, conditions: list[Object]) -> None:
    seen: dict[str, int] = {}
    for index, one in enumerate(conditions):
        field, kind = f"status[{index}]", one["type"]
        if kind in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[kind]}]"
            errors.add(invalid(f"{field}.type", kind, text))
        seen[kind] = index
        errors.add_each(f"{field}.type", kind, qualified_name(kind))
        errors.add_each(f"{field}.status", one["status"], qualified_name(one["status"]))
        for name in ("reason", "message"):
            if not one.get(name):
                errors.add(required(f"{field}.{name}"))


def _versions_cell(stored: Object, _: int) -> str:
    servers = stored["status"].get("storageVersions", ())
    if not servers:
        return "<none>"
    listed = ",".join(f"{one.get('apiServerID', '')}={one.get('encodingVersion', '')}" for one in servers[:3])
    return f"{listed} + {len(servers) - 3} more..." if len(servers) > 3 else listed
