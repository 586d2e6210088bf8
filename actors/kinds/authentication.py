"""The authentication group: TokenReview, which authenticates a token, and TokenRequest, which issues one.

Neither is stored: a create of a TokenReview returns it with its status, and clients post a TokenRequest to the `token`
subresource of a service account.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.declaration.definition import Definition, Storage
from actors.kinds.declaration.meta import METADATA
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, TIME, Field, MapOf, Struct
from actors.kinds.validation.checks import name_is_subdomain
from actors.kinds.validation.field_errors import FieldErrors, invalid
from actors.messages import Object
from actors.names import Names

MIN_EXPIRATION, MAX_EXPIRATION, DEFAULT_EXPIRATION = 600, 2**32, 3600  # seconds

EXTRA: Final = MapOf(STRINGS)
USER_INFO = Struct(
    "authentication.v1.UserInfo",
    Field("username", STRING, 1),
    Field("uid", STRING, 2),
    Field("groups", STRINGS, 3),
    Field("extra", EXTRA, 4),
)
TOKEN_REVIEW = Struct(
    "authentication.v1.TokenReview",
    METADATA,
    Field(
        "spec",
        Struct(
            "authentication.v1.TokenReviewSpec",
            Field("token", STRING, 1),
            Field("audiences", STRINGS, 2),
        ),
        2,
        required=True,
    ),
    Field(
        "status",
        Struct(
            "authentication.v1.TokenReviewStatus",
            Field("authenticated", BOOL, 1),
            Field("user", USER_INFO, 2),
            Field("audiences", STRINGS, 4),
            Field("error", STRING, 3),
        ),
        3,
    ),
)
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
            Field("audiences", STRINGS, 1, required=True, always=True, list_type="atomic"),
            Field("expirationSeconds", INT64, 4, pointer=True, default=DEFAULT_EXPIRATION),
            Field("boundObjectRef", BOUND_OBJECT, 3, pointer=True, always=True),
        ),
        2,
        required=True,
    ),
    Field(
        "status",
        Struct(
            "authentication.v1.TokenRequestStatus",
            Field("token", STRING, 1, required=True, always=True),
            Field("expirationTimestamp", TIME, 2, required=True, always=True),
        ),
        3,
    ),
)


def declare(names: Names) -> tuple[Definition, ...]:
    review = Definition(
        group=names.group("authentication"),
        version="v1",
        kind="TokenReview",
        plural="tokenreviews",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=TOKEN_REVIEW,
        verbs=("create",),
        storage=Storage(ephemeral=True),
    )
    return (review,)


def token_request(names: Names) -> Definition:
    """The view of the `token` subresource of service accounts."""
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
