"""Lease candidates, pod groups, storage migrations and storage versions: what they refuse."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.validation import collect_with
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

GATES = "GenericWorkload=true,StorageVersionMigrator=true,CoordinatedLeaderElection=true"


def definition_of(version: str, api_version: str, plural: str) -> Definition:
    group, _, name = api_version.partition("/")
    given = ",".join(one for one in GATES.split(",") if KNOWN[one.partition("=")[0]] <= version)
    catalog = built_in(KUBERNETES, choose_release(version, given), Enablement(every=True))
    found = catalog.find(f"{group}.k8s.io", name, plural)
    assert found is not None
    return found


KNOWN = {"GenericWorkload": "1.35", "StorageVersionMigrator": "1.30", "CoordinatedLeaderElection": "1.31"}


def decoded(definition: Definition, **content: Any) -> Object:
    sent = {"metadata": {"name": "a.b", "namespace": "default"}, **content}
    return definition.schema.decode_object(sent).object


def problems(definition: Definition, **content: Any) -> list[str]:
    new = decoded(definition, **content)
    found = collect_with(definition.features, definition.strategy.validate_create, new)
    return [f"{one.field}: {one.message}" for one in found]


def test_candidates_have_versions_and_a_strategy() -> None:
    candidates = definition_of("1.36", "coordination/v1beta1", "leasecandidates")
    spec = {"leaseName": "l", "binaryVersion": "1.2.0", "strategy": "OldestEmulationVersion"}
    assert problems(candidates, spec={**spec, "emulationVersion": "1.2.0"}) == []
    assert problems(candidates, spec={**spec, "emulationVersion": "1.3.0-a.1"}) == [
        'spec.binaryVersion: Invalid value: "1.2.0": must be greater than or equal to `emulationVersion`'
    ]
    assert problems(candidates, spec=spec) == [
        "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'"
    ]
    assert problems(candidates, spec={"binaryVersion": "1"}) == [
        "spec.leaseName: Required value",
        'spec.binaryVersion: Invalid value: "1": must be a valid semantic version',
        "spec.strategy: Required value",
    ]


def test_preferred_holder_of_a_lease_needs_a_strategy() -> None:
    leases = definition_of("1.36", "coordination/v1", "leases")
    assert problems(leases, spec={"preferredHolder": "h"}) == [
        "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"
    ]


def test_groups_of_pods_have_one_policy() -> None:
    groups = definition_of("1.36", "scheduling/v1alpha2", "podgroups")
    assert problems(groups, spec={"schedulingPolicy": {"gang": {"minCount": 2}}}) == []
    assert problems(groups, spec={"schedulingPolicy": {}}) == [
        'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
    ]
    workloads = definition_of("1.36", "scheduling/v1alpha2", "workloads")
    assert problems(workloads, spec={}) == ["spec.podGroupTemplates: Required value"]
    old = definition_of("1.35", "scheduling/v1alpha1", "workloads")
    both = {"name": "g", "policy": {"basic": {}, "gang": {"minCount": 1}}}
    assert problems(old, spec={"podGroups": [both]}) == [
        'spec.podGroups[0].policy: Invalid value: "{`basic`, `gang`}": '
        "exactly one of `basic`, `gang` is required, but multiple fields are set"
    ]


def test_migrations_name_a_resource() -> None:
    migrations = definition_of("1.36", "storagemigration/v1beta1", "storageversionmigrations")
    assert problems(migrations, spec={"resource": {"group": "apps", "resource": "deployments"}}) == []
    assert problems(migrations, spec={"resource": {}}) == [
        "spec.resource.resource: Required value: resource is required to be set"
    ]
    old = definition_of("1.30", "storagemigration/v1alpha1", "storageversionmigrations")
    assert problems(old, spec={"resource": {"resource": "pods"}}) == [
        "spec.resource.version: Required value: version is required"
    ]
    assert old.type_name != migrations.type_name


def test_a_migration_that_failed_stays_failed() -> None:
    migrations = definition_of("1.36", "storagemigration/v1beta1", "storageversionmigrations")
    status = migrations.subresource("status")
    assert status is not None
    condition = {"type": "Failed", "status": "True", "reason": "R", "message": "m"}
    moment = {"lastTransitionTime": "2020-01-01T00:00:00Z"}
    spec = {"resource": {"group": "", "resource": "pods"}}
    old = decoded(migrations, spec=spec, status={"resourceVersion": "5", "conditions": [condition | moment]})
    new = decoded(migrations, spec=spec, status={"resourceVersion": "6"})
    found = collect_with(migrations.features, status.validate, new, old)
    assert [(one.field, one.message) for one in found] == [
        ("status.resourceVersion", 'Invalid value: "6": field is immutable'),
        (
            "status.conditions",
            "Invalid value: null: Failed condition cannot be set to false once it is true",
        ),
    ]


def test_storage_versions_agree() -> None:
    versions = definition_of("1.36", "internal.apiserver/v1alpha1", "storageversions")
    assert versions.check_name("apps", False) == ["name must be in the form of <group>.<resource>"]
    status = versions.subresource("status")
    assert status is not None
    server = {"apiServerID": "s", "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"]}
    new = decoded(versions, status={"storageVersions": [server]})
    found = collect_with(versions.features, status.validate, new, new)
    assert [one.message for one in found] == ["Invalid value: null: the common encoding version is apps/v1"]
    agreed = decoded(versions, status={"storageVersions": [server], "commonEncodingVersion": "apps/v1"})
    assert collect_with(versions.features, status.validate, agreed, agreed) == []
