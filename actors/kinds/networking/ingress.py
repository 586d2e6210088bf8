"""Ingress: routes HTTP requests from outside the cluster to Services, by host and path.

Two rules came later than the kind. An update of an ingress that already violates one of them may keep violating it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core.load_balancer import LOAD_BALANCER_STATUS, load_balancer_rules
from actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.networking import columns
from actors.kinds.networking.backend import BACKEND, backend_rules
from actors.kinds.schema.fields import STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
    collect,
    dns_subdomain,
    invalid,
    name_is_subdomain,
    not_supported,
    parse_ip,
    required,
    wildcard_subdomain,
)
from actors.messages import Object
from actors.names import Names

PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
FORBIDDEN_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
FORBIDDEN_PATH_ENDINGS: Final = ("/..", "/.")

PATH = Struct(
    "networking.v1.HTTPIngressPath",
    Field("path", STRING, 1),
    Field("pathType", STRING, 3, required=True, pointer=True, always=True),
    Field("backend", BACKEND, 2, required=True),
)
HTTP = Struct(
    "networking.v1.HTTPIngressRuleValue",
    Field("paths", ListOf(PATH), 1, required=True, always=True, list_type="atomic"),
)
RULE = Struct(
    "networking.v1.IngressRule",
    Field("host", STRING, 1),
    Field("http", HTTP, 1, embedded=2, pointer=True),
)
TLS = Struct(
    "networking.v1.IngressTLS",
    Field("hosts", STRINGS, 1, list_type="atomic"),
    Field("secretName", STRING, 2),
)
SPEC = Struct(
    "networking.v1.IngressSpec",
    Field("ingressClassName", STRING, 4, pointer=True),
    Field("defaultBackend", BACKEND, 1, pointer=True),
    Field("tls", ListOf(TLS), 2, list_type="atomic"),
    Field("rules", ListOf(RULE), 3, list_type="atomic"),
)
STATUS = Struct("networking.v1.IngressStatus", Field("loadBalancer", LOAD_BALANCER_STATUS, 1))
INGRESS = Struct("networking.v1.Ingress", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


def define(names: Names) -> Definition:
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="Ingress",
        plural="ingresses",
        names=DiscoveryNames(short_names=("ing",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=INGRESS,
        subresources=(Subresource(name="status", prepare=keep_spec, validate=status_rules),),
        storage=Storage(error_group="extensions"),  # the group that the kind was moved from
        table=Table(columns.INGRESS),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, STATUS),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=partial(rules, class_key=names.key("ingress.class")),
            validate_update=update_rules,
        ),
    )


def rules(errors: FieldErrors, new: Object, *, class_key: str) -> None:
    _spec_rules(errors, new["spec"])
    annotations = new["metadata"].get("annotations", {})
    if class_key in annotations and "ingressClassName" in new["spec"]:
        text = "can not be set when the class field is also set"
        errors.add(invalid(f"annotations.{class_key}", annotations[class_key], text))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    _spec_rules(
        errors,
        new["spec"],
        allow_invalid_secrets=_has_invalid_secret_names(old["spec"]),
        allow_invalid_wildcards=_has_invalid_wildcard_rules(old["spec"]),
    )


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    load_balancer_rules(errors, new["status"]["loadBalancer"], "status.loadBalancer")


def _spec_rules(
    errors: FieldErrors,
    spec: Object,
    *,
    allow_invalid_secrets: bool = False,
    allow_invalid_wildcards: bool = False,
) -> None:
    if "rules" not in spec and "defaultBackend" not in spec:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.add(
            FieldError("FieldValueInvalid", "spec", f"Invalid value: []networking.IngressRule(nil): {text}")
        )
    if "defaultBackend" in spec:
        backend_rules(errors, spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules", ())):
        _rule(errors, rule, f"spec.rules[{index}]", allow_invalid_wildcards=allow_invalid_wildcards)
    for index, tls in enumerate(spec.get("tls", ())):
        _tls(errors, tls, f"spec.tls[{index}]", allow_invalid_secrets=allow_invalid_secrets)
    if "ingressClassName" in spec:
        name = spec["ingressClassName"]
        errors.add_each("spec.ingressClassName", name, dns_subdomain(name))


def _rule(errors: FieldErrors, rule: Object, field: str, *, allow_invalid_wildcards: bool) -> None:
    host = rule.get("host", "")
    if host:
        if parse_ip(host) is not None:
            errors.add(invalid(f"{field}.host", host, "must be a DNS name, not an IP address"))
        errors.add_each(f"{field}.host", host, _host(host))
    if "http" in rule and not ("*" in host and allow_invalid_wildcards):
        _paths(errors, rule["http"]["paths"], f"{field}.http.paths")


def _host(host: str) -> list[str]:
    return wildcard_subdomain(host) if "*" in host else dns_subdomain(host)


def _paths(errors: FieldErrors, paths: list[Object] | None, field: str) -> None:
    if not paths:
        errors.add(required(field))
    else:
        for index, path in enumerate(paths):
            _path(errors, path, f"{field}[{index}]")


def _path(errors: FieldErrors, path: Object, field: str) -> None:
    kind, text = path["pathType"], path.get("path", "")
    if kind is None:
        errors.add(required(f"{field}.pathType", "pathType must be specified"))
        return
    if kind not in PATH_TYPES:
        errors.add(not_supported(f"{field}.pathType", kind, PATH_TYPES))
    elif kind == "ImplementationSpecific":
        errors.add_each(f"{field}.path", text, _absolute(text) if text else ())
    else:
        errors.add_each(f"{field}.path", text, [*_absolute(text), *_normalized(text)])
    backend_rules(errors, path["backend"], f"{field}.backend")


def _absolute(path: str) -> list[str]:
    return [] if path.startswith("/") else ["must be an absolute path"]


def _normalized(path: str) -> list[str]:
    """The path has no parts that proxies normalize in different ways."""
    return [f"must not contain '{part}'" for part in FORBIDDEN_IN_PATHS if part in path] + [
        f"cannot end with '{end}'" for end in FORBIDDEN_PATH_ENDINGS if path.endswith(end)
    ]


def _tls(errors: FieldErrors, tls: Object, field: str, *, allow_invalid_secrets: bool) -> None:
    for index, host in enumerate(tls.get("hosts", ())):
        errors.add_each(f"{field}.hosts[{index}]", host, _host(host))
    secret = tls.get("secretName", "")
    if secret and not allow_invalid_secrets:
        errors.add_each(f"{field}.secretName", secret, dns_subdomain(secret))


def _has_invalid_secret_names(spec: Object) -> bool:
    return any("secretName" in tls and dns_subdomain(tls["secretName"]) for tls in spec.get("tls", ()))


def _has_invalid_wildcard_rules(spec: Object) -> bool:
    return any(
        "*" in rule.get("host", "") and "http" in rule and collect(_paths, rule["http"]["paths"], "")
        for rule in spec.get("rules", ())
    )
