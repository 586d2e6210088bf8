"""The coordination group: Lease, with which programs elect a leader and nodes send heartbeats."""

from __future__ import annotations

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at
from rewound.actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table
from rewound.actors.kinds.declaration.meta import METADATA, metadata_update_rules
from rewound.actors.kinds.schema.fields import INT32, MICRO_TIME, STRING, Field, Struct
from rewound.actors.kinds.validation import FieldErrors, invalid, name_is_subdomain
from rewound.actors.messages import Object
from rewound.actors.names import Names

SPEC = Struct(
    "coordination.v1.LeaseSpec",
    Field("holderIdentity", STRING, 1, pointer=True),
    Field("leaseDurationSeconds", INT32, 2, pointer=True),
    Field("acquireTime", MICRO_TIME, 3, pointer=True),
    Field("renewTime", MICRO_TIME, 4, pointer=True),
    Field("leaseTransitions", INT32, 5, pointer=True),
    Field("preferredHolder", STRING, 7, pointer=True, since="1.31", gate="CoordinatedLeaderElection"),
    Field("strategy", STRING, 6, pointer=True, since="1.31", gate="CoordinatedLeaderElection"),
)
LEASE = Struct("coordination.v1.Lease", METADATA, Field("spec", SPEC, 2))


def declare(names: Names) -> tuple[Definition, ...]:
    lease = Definition(
        group=names.group("coordination"),
        version="v1",
        kind="Lease",
        plural="leases",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=LEASE,
        deletion=Deletion(only_known_finalizers=False),
        table=Table(
            (NAME, Column("Holder", "string", "Identity of the holder.", at("spec", "holderIdentity")), AGE)
        ),
        strategy=Strategy(
            allow_create_on_update=True,
            allow_unconditional_update=False,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
    return (lease,)


def rules(errors: FieldErrors, new: Object) -> None:
    duration, transitions = new["spec"].get("leaseDurationSeconds"), new["spec"].get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.add(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.add(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
    rules(errors, new)
