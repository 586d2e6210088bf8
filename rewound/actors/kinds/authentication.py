"""The authentication group: TokenReview, which authenticates a token, and TokenRequest, which issues one.

Neither is stored: a create of a TokenReview returns it with its status, and clients post a TokenRequest to the `token`
subresource of a service account.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.kinds.declaration.definition import Definition, Storage, Strategy
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import BOOL, INT64, STRING, STRINGS, TIME, Field, MapOf, Struct
from rewound.actors.kinds.validation import FieldErrors, invalid, name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

MIN_EXPIRATION, MAX_EXPIRATION, DEFAULT_EXPIRATION = 600, 2**32, 3600  # seconds

EXTRA: Final = MapOf(STRINGS)


def token_review(version: str) -> Struct:
    """Return the fields of a TokenReview, which are the same in v1 and v1beta1."""
    prefix = f"authentication.{version}"
    user = Struct(
        f"{prefix}.UserInfo",
        Field("username", STRING, 1),
        Field("uid", STRING, 2),
        Field("groups", STRINGS, 3),
        Field("extra", EXTRA, 4),
    )
    spec = Struct(f"{prefix}.TokenReviewSpec", Field("token", STRING, 1), Field("audiences", STRINGS, 2))
    status = Struct(
        f"{prefix}.TokenReviewStatus",
        Field("authenticated", BOOL, 1),
        Field("user", user, 2),
        Field("audiences", STRINGS, 4),
        Field("error", STRING, 3),
    )
    return Struct(
        f"{prefix}.TokenReview",
        METADATA,
        Field("spec", spec, 2, required=True),
        Field("status", status, 3),
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
            Field("audiences", STRINGS, 1, required=True, always=True),
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
    stored = _review(names, "v1", Storage(ephemeral=True))
    other = Storage(ephemeral=True, stored_as=stored.type_name)
    return stored, _review(names, "v1beta1", other, on_by_default=False)


def _review(names: Names, version: str, storage: Storage, *, on_by_default: bool = True) -> Definition:
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
