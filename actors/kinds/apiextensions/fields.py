"""CustomResourceDefinition: its declaration."""

from __future__ import annotations

from functools import cache

from actors.kinds.apiextensions.json_schema import json_schema_props
from actors.kinds.declaration.meta import METADATA
from actors.kinds.schema.fields import BOOL, BYTES, INT32, STRING, STRINGS, TIME, Field, ListOf, Struct

NAMES = Struct(
    "apiextensions.v1.CustomResourceDefinitionNames",
    Field("plural", STRING, 1, required=True, always=True),
    Field("singular", STRING, 2),
    Field("shortNames", STRINGS, 3),
    Field("kind", STRING, 4, required=True, always=True),
    Field("listKind", STRING, 5),
    Field("categories", STRINGS, 6),
)
COLUMN = Struct(
    "apiextensions.v1.CustomResourceColumnDefinition",
    Field("name", STRING, 1, required=True, always=True),
    Field("type", STRING, 2, required=True, always=True),
    Field("format", STRING, 3),
    Field("description", STRING, 4),
    Field("priority", INT32, 5),
    Field("jsonPath", STRING, 6, required=True, always=True),
)
SCALE = Struct(
    "apiextensions.v1.CustomResourceSubresourceScale",
    Field("specReplicasPath", STRING, 1, required=True, always=True),
    Field("statusReplicasPath", STRING, 2, required=True, always=True),
    Field("labelSelectorPath", STRING, 3, pointer=True),
)
SUBRESOURCES = Struct(
    "apiextensions.v1.CustomResourceSubresources",
    Field("status", Struct("apiextensions.v1.CustomResourceSubresourceStatus"), 1, pointer=True),
    Field("scale", SCALE, 2, pointer=True),
)
SERVICE_REFERENCE = Struct(
    "apiextensions.v1.ServiceReference",
    Field("namespace", STRING, 1, required=True, always=True),
    Field("name", STRING, 2, required=True, always=True),
    Field("path", STRING, 3, pointer=True),
    Field("port", INT32, 4, pointer=True, default=443),
)
CLIENT_CONFIG = Struct(
    "apiextensions.v1.WebhookClientConfig",
    Field("url", STRING, 3, pointer=True),
    Field("service", SERVICE_REFERENCE, 1, pointer=True),
    Field("caBundle", BYTES, 2),
)
WEBHOOK_CONVERSION = Struct(
    "apiextensions.v1.WebhookConversion",
    Field("clientConfig", CLIENT_CONFIG, 2, pointer=True),
    Field("conversionReviewVersions", STRINGS, 3, required=True, always=True),
)
CONVERSION = Struct(
    "apiextensions.v1.CustomResourceConversion",
    Field("strategy", STRING, 1, required=True, always=True),
    Field("webhook", WEBHOOK_CONVERSION, 2, pointer=True),
)
CONDITION = Struct(
    "apiextensions.v1.CustomResourceDefinitionCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastTransitionTime", TIME, 3),
    Field("reason", STRING, 4),
    Field("message", STRING, 5),
)
STATUS = Struct(
    "apiextensions.v1.CustomResourceDefinitionStatus",
    Field("conditions", ListOf(CONDITION), 1, always=True, list_type="map", list_keys=("type",)),
    Field("acceptedNames", NAMES, 2, always=True),
    Field("storedVersions", STRINGS, 3, always=True),
)


@cache
def custom_resource_definition(prefix: str) -> Struct:
    """`prefix` is that of the extensions in schemas, such as x-cluster-."""
    validation = Struct(
        "apiextensions.v1.CustomResourceValidation",
        Field("openAPIV3Schema", json_schema_props(prefix), 1, pointer=True),
    )
    version = Struct(
        "apiextensions.v1.CustomResourceDefinitionVersion",
        Field("name", STRING, 1, required=True, always=True),
        Field("served", BOOL, 2, required=True, always=True),
        Field("storage", BOOL, 3, required=True, always=True),
        Field("deprecated", BOOL, 7),
        Field("deprecationWarning", STRING, 8, pointer=True),
        Field("schema", validation, 4, pointer=True),
        Field("subresources", SUBRESOURCES, 5, pointer=True),
        Field("additionalPrinterColumns", ListOf(COLUMN), 6),
    )
    spec = Struct(
        "apiextensions.v1.CustomResourceDefinitionSpec",
        Field("group", STRING, 1, required=True, always=True),
        Field("names", NAMES, 3, required=True, always=True),
        Field("scope", STRING, 4, required=True, always=True),
        Field("versions", ListOf(version), 7, required=True, always=True),
        Field("conversion", CONVERSION, 9, pointer=True),
        Field("preserveUnknownFields", BOOL, 10),
    )
    return Struct(
        "apiextensions.v1.CustomResourceDefinition",
        METADATA,
        Field("spec", spec, 2, required=True, always=True),
        Field("status", STATUS, 3),
    )
