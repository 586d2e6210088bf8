"""ServiceAccount: an identity for programs, with the secrets it may use."""

from __future__ import annotations

from rewound.actors.kinds.authentication import token_request
from rewound.actors.kinds.core.references import LOCAL_OBJECT_REFERENCE, OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, size_of
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
)
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from rewound.actors.kinds.schema.fields import BOOL, UNTYPED_BEFORE_1_30, Field, ListOf, Struct
from rewound.actors.kinds.validation import FieldErrors, name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

SERVICE_ACCOUNT = Struct(
    "core.v1.ServiceAccount",
    METADATA,
    Field(
        "secrets",
        ListOf(OBJECT_REFERENCE),
        2,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "imagePullSecrets",
        ListOf(LOCAL_OBJECT_REFERENCE),
        3,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("automountServiceAccountToken", BOOL, 4, pointer=True),
)


def define(names: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="ServiceAccount",
        plural="serviceaccounts",
        names=DiscoveryNames(short_names=("sa",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=SERVICE_ACCOUNT,
        subresources=(token(names),),
        deletion=Deletion(returns_object=True),
        table=Table(
            (
                NAME,
                Column(
                    "Secrets",
                    "string",
                    "Number of secrets that pods with this service account may use.",
                    size_of("secrets"),
                    until="1.34",
                ),
                AGE,
            )
        ),
        strategy=Strategy(
            prepare_for_create=keep_names_of_secrets,
            prepare_for_update=lambda new, _: keep_names_of_secrets(new),
            validate_update=update_rules,
        ),
    )


def token(names: Names) -> Subresource:
    view = token_request(names)
    return Subresource(
        name="token",
        verbs=("create",),
        kind=view.kind,
        group=view.group,
        version=view.version,
        view=view,
        issues_token=True,
    )


def keep_names_of_secrets(new: Object) -> None:
    """Secrets of an account are in its own namespace: keep only the names of the references."""
    if "secrets" in new:
        new["secrets"] = [{"name": one["name"]} if "name" in one else {} for one in new["secrets"]]


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
