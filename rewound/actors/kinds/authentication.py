"""The authentication group: TokenReview, which authenticates a token, SelfSubjectReview, which returns the user of a
request, and TokenRequest, which issues a token.

None is stored: a create of a review returns it with its status, and clients post a TokenRequest to the `token`
subresource of a service account.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rewound.actors.kinds.declaration.definition import Definition, Storage, Strategy
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT64,
    STRING,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    MapOf,
    Struct,
)
from rewound.actors.kinds.validation import FieldErrors, invalid, name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

MIN_EXPIRATION, MAX_EXPIRATION, DEFAULT_EXPIRATION = 600, 2**32, 3600  # seconds

EXTRA: Final = MapOf(STRINGS)


def _user_info(version: str) -> Struct:
    return Struct(
        f"authentication.{version}.UserInfo",
        Field("username", STRING, 1),
        Field("uid", STRING, 2),
        Field("groups", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("extra", EXTRA, 4),
    )


USER_INFO: Final = _user_info("v1")


def token_review(version: str) -> Struct:
    """Return the fields of a TokenReview, which are the same in v1 and v1beta1."""
    prefix = f"authentication.{version}"
    user = USER_INFO if version == "v1" else _user_info(version)
    spec = Struct(
        f"{prefix}.TokenReviewSpec",
        Field("token", STRING, 1, required=True, before=(Before("1.36", required=False),)),
        Field("audiences", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    )
    status = Struct(
        f"{prefix}.TokenReviewStatus",
        Field("authenticated", BOOL, 1),
        Field("user", user, 2),
        Field("audiences", STRINGS, 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("error", STRING, 3),
    )
    return Struct(
        f"{prefix}.TokenReview",
        METADATA,
        Field("spec", spec, 2, required=True),
        Field("status", status, 3),
    )


def self_subject_review(version: str) -> Struct:
    prefix = f"authentication.{version}"
    status = Struct(f"{prefix}.SelfSubjectReviewStatus", Field("userInfo", USER_INFO, 1))
    return Struct(f"{prefix}.SelfSubjectReview", METADATA, Field("status", status, 2))


BOUND_OBJECT = Struct(
    "authentication.v1.BoundObjectReference",
    Field("kind", STRING, 1),
    Field("apiVersion", STRING, 2),
    Field("name", STRING, 3),
    Field("uid", STRING, 4),
)
TOKEN_REQUEST = Struct(
    "authentication.v1.TokenRequest",
    METADATA,
    Field(
        "spec",
        Struct(
            "authentication.v1.TokenRequestSpec",
            Field(
                "audiences",
                STRINGS,
                1,
                always=True,
                list_type="atomic",
                before=(*UNTYPED_BEFORE_1_30, Before("1.36", required=True)),
            ),
            Field("expirationSeconds", INT64, 4, pointer=True, default=DEFAULT_EXPIRATION),
            Field("boundObjectRef", BOUND_OBJECT, 3, pointer=True, always=True),
        ),
        2,
        before=(Before("1.36", required=True),),
    ),
    Field(
        "status",
        Struct(
            "authentication.v1.TokenRequestStatus",
            Field("token", STRING, 1, always=True, before=(Before("1.36", required=True),)),
            Field("expirationTimestamp", TIME, 2, always=True, before=(Before("1.36", required=True),)),
        ),
        3,
    ),
)


def declare(names: Names) -> tuple[Definition, ...]:
    stored = _token_review(names, "v1", Storage(ephemeral=True))
    other = Storage(ephemeral=True, stored_as=stored.type_name)
    return (
        stored,
        replace(_token_review(names, "v1beta1", other, on_by_default=False), until="1.25"),
        _self_subject_review(names, "v1", since="1.28"),
        _self_subject_review(names, "v1beta1", since="1.27", until="1.32", on_by_default=False),
        _self_subject_review(names, "v1alpha1", since="1.26", until="1.31", on_by_default=False),
    )


def _token_review(names: Names, version: str, storage: Storage, *, on_by_default: bool = True) -> Definition:
    return Definition(
        group=names.group("authentication"),
        version=version,
        kind="TokenReview",
        plural="tokenreviews",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=token_review(version),
        verbs=("create",),
        on_by_default=on_by_default,
        storage=storage,
    )


def _self_subject_review(
    names: Names, version: str, *, since: str, until: str = "", on_by_default: bool = True
) -> Definition:
    return Definition(
        group=names.group("authentication"),
        version=version,
        kind="SelfSubjectReview",
        plural="selfsubjectreviews",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=self_subject_review(version),
        verbs=("create",),
        since=since,
        until=until,
        gate="APISelfSubjectReview",
        on_by_default=on_by_default,
        storage=Storage(ephemeral=True),
    )


def token_request(names: Names) -> Definition:
    """Return the view of the `token` subresource of service accounts."""
    return Definition(
        group=names.group("authentication"),
        version="v1",
        kind="TokenRequest",
        plural="tokenrequests",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=TOKEN_REQUEST,
        verbs=("create",),
        strategy=Strategy(validate_create=request_rules),
    )


def request_rules(errors: FieldErrors, sent: Object) -> None:
    field, seconds = "spec.expirationSeconds", sent["spec"]["expirationSeconds"]
    if seconds < MIN_EXPIRATION:
        errors.add(invalid(field, seconds, "may not specify a duration less than 10 minutes"))
        return
    if seconds > MAX_EXPIRATION:
        errors.add(invalid(field, seconds, "may not specify a duration larger than 2^32 seconds"))
