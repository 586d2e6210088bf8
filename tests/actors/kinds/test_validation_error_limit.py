"""Bodies with very many errors: validation ends early, and the response stays short."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import Invalid
from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Create, WriteContext
from rewound.actors.names import CLUSTER
from rewound.actors.resource.decide import prepare_create

CATALOG = built_in(CLUSTER)
MANY = 20_000
POD = {"containers": [{"name": "c", "image": "i"}]}


@pytest.mark.parametrize(
    ("plural", "document", "fields"),
    [
        ("configmaps", {"metadata": {"finalizers": ["-"] * MANY}}, "metadata.finalizers"),
        ("configmaps", {"metadata": {"labels": {f"-{at}": "-" for at in range(MANY)}}}, "metadata.labels"),
        ("configmaps", {"metadata": {}, "data": {f"/{at}": "" for at in range(MANY)}}, "data["),
        ("pods", {"metadata": {}, "spec": {**POD, "hostAliases": [{}] * MANY}}, "spec.hostAliases"),
        (
            "pods",
            {"metadata": {}, "spec": {**POD, "tolerations": [{"operator": "x"}] * MANY}},
            "spec.tolerations",
        ),
    ],
)
def test_validation_stops_after_many_errors(plural: str, document: dict[str, Any], fields: str) -> None:
    definition = CATALOG.find("", "v1", plural)
    assert definition is not None
    document["metadata"]["name"] = "a"
    new = definition.schema.decode_object(document).object
    context = WriteContext(0, "user", "manager", "u-1", "abcde")
    with pytest.raises(Invalid) as refused:
        prepare_create(definition, Create("v1", "default", new, context), new)
    assert 70 <= len(refused.value.causes) <= 100
    assert all(cause.field.startswith(fields) for cause in refused.value.causes)
    assert refused.value.message.endswith("and many more]")
