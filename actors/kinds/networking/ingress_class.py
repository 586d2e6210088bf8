"""IngressClass: the controller that implements Ingresses of the class, and its parameters."""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.definition import Definition, Strategy, Table, bump_generation
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.networking import columns
from actors.kinds.networking.backend import reference_rules
from actors.kinds.schema.fields import STRING, Field, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_label,
    domain_prefixed_path,
    forbidden,
    name_is_subdomain,
    not_supported,
    required,
    size,
    too_long,
    unchanged,
)
from actors.messages import Object
from actors.names import Names

LONGEST_CONTROLLER: Final = 250
SCOPES: Final = ("Cluster", "Namespace")

PARAMETERS = Struct(
    "networking.v1.IngressClassParametersReference",
    Field("apiGroup", STRING, 1, pointer=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    Field("scope", STRING, 4, pointer=True, always=True, default="Cluster"),
    Field("namespace", STRING, 5, pointer=True),
)
SPEC = Struct(
    "networking.v1.IngressClassSpec",
    Field("controller", STRING, 1),
    Field("parameters", PARAMETERS, 2, pointer=True),
)
INGRESS_CLASS = Struct("networking.v1.IngressClass", METADATA, Field("spec", SPEC, 2))


def define(names: Names) -> Definition:
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="IngressClass",
        plural="ingressclasses",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=INGRESS_CLASS,
        table=Table(columns.INGRESS_CLASS),
        strategy=Strategy(
            prepare_for_create=prepare_create,
            prepare_for_update=bump_generation,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1


def rules(errors: FieldErrors, new: Object) -> None:
    controller = new["spec"].get("controller", "")
    if size(controller) > LONGEST_CONTROLLER:
        errors.add(too_long("spec.controller", LONGEST_CONTROLLER))
    domain_prefixed_path(errors, "spec.controller", controller)
    if "parameters" in new["spec"]:
        _parameters(errors, new["spec"]["parameters"], "spec.parameters")


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    unchanged(errors, "spec.controller", new["spec"].get("controller", ""), old["spec"].get("controller", ""))
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    rules(errors, new)


def _parameters(errors: FieldErrors, parameters: Object, field: str) -> None:
    reference_rules(errors, parameters, field)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in SCOPES:
        errors.add(not_supported(f"{field}.scope", scope, SCOPES))
        return
    if scope == "Cluster" and namespace is not None:
        errors.add(forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.add(required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors.add_each(f"{field}.namespace", namespace, dns_label(namespace))
