"""A kind that no release has, for tests that register kinds at run time."""

from __future__ import annotations

from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    keep_spec,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import INT32, STRING, Field, Struct
from rewound.actors.kinds.validation import name_is_subdomain

GROUP, TYPE = "stable.example.io", "crontabs.stable.example.io"
PATH = f"/apis/{GROUP}/v1/namespaces/default/crontabs"


def crontabs(version: str = "v1", *more: Field) -> Definition:
    """Stored in v1; other versions have the same form. `more` are fields of the spec."""
    of = f"{GROUP}.{version}"
    spec = Struct(f"{of}.CronTabSpec", Field("schedule", STRING, 1), Field("replicas", INT32, 2), *more)
    status = Struct(f"{of}.CronTabStatus", Field("runs", INT32, 1))
    fields = Struct(f"{of}.CronTab", METADATA, Field("spec", spec, 2), Field("status", status, 3))
    views = Storage(stored_as=TYPE, conversion=Conversion(lambda one: one, lambda one: one))
    return Definition(
        group=GROUP,
        version=version,
        kind="CronTab",
        plural="crontabs",
        names=DiscoveryNames(singular="crontab", short_names=("ct",), categories=("all",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=fields,
        subresources=(Subresource(name="status", prepare=keep_spec),),
        storage=Storage() if version == "v1" else views,
        strategy=Strategy(
            prepare_for_create=lambda new: reset_status_and_generation(status, new),
            prepare_for_update=keep_status_and_bump_generation,
        ),
    )
