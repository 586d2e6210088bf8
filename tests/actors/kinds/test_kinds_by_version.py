"""The catalog of each version: what is declared for it exists there, and every gate that a declaration names works."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rewound
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.schema.fields import Struct
from rewound.actors.kinds.schema.projection import struct_inside
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import CHANGES, GATES, choose_release
from rewound.actors.versions.gates import gates_of, outlived_by_features
from rewound.actors.versions.version import VERSIONS, minor

# Modules that may know the version: they make the declarations of one, choose or record it, or say which it is.
KNOW_THE_VERSION = {
    "actors/kinds/built_in.py",
    "actors/kinds/catalog.py",
    "actors/kinds/schema/projection.py",
    "actors/store/etcd/copy.py",
    "actors/store/etcd/migration.py",
    "actors/store/migration.py",
    "actors/versions/features.py",
    "actors/versions/gates.py",
    "actors/workloads/template_hash.py",
    "cli/cel.py",
    "cli/completion.py",
    "cli/envtest.py",
    "cli/importing.py",
    "cli/main.py",
    "cli/policy.py",
    "cli/serve.py",
    "cli/upgrade_check.py",
    "cluster/membership.py",
    "cluster/standby/sinks.py",
    "gateway/settings/settings.py",
    "recording/flight/flight.py",
    "recording/query/folder.py",
    "recording/query/kind_names.py",
    "recording/record/kinds.py",
    "recording/record/recorder.py",
    "recording/rules/expressions.py",  # CEL as the newest has it
    "recording/policies/sources.py",
    "recording/replay/replay.py",
    "recording/replay/writable.py",
    "recording/upgrade/rehearsal.py",  # names it in messages
    "server/flags/parser.py",
    "server/standby.py",
    "testing/envtest/api_server.py",
    "testing/envtest/flags.py",
    "testing/fixture/plugin.py",
}


def structs_in(struct: Struct, seen: set[Struct]) -> Iterator[Struct]:
    if struct not in seen:
        seen.add(struct)
        yield struct
        for field in struct.fields:
            inner = struct_inside(field.type)
            if inner is not None:
                yield from structs_in(inner, seen)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_have_numbers_and_gates_of_their_version(version: str) -> None:
    catalog = built_in(KUBERNETES, choose_release(version))
    known = gates_of(version).keys() | outlived_by_features(version)
    seen: set[Struct] = set()
    for definition in catalog.declared:
        named = {definition.gate, *(one.gate for one in definition.subresources)}
        for struct in structs_in(definition.fields, seen):
            named |= {field.gate for field in struct.fields}
            unnumbered = {field.name for field in struct.fields if not field.number}
            assert unnumbered <= {"kind", "apiVersion"}, struct.of
        named.discard("")
        assert named <= GATES
        assert named <= known, definition


def test_changes_have_distinct_names_that_are_no_gates() -> None:
    names = [one.name for one in CHANGES]
    assert len(set(names)) == len(names)
    assert not GATES & set(names)
    assert all(minor(one.since or "1.25") <= minor(one.until or "1.36") for one in CHANGES)


def test_no_other_code_asks_for_the_version() -> None:
    """What differs between versions is declared, or asked for as a feature."""
    root = Path(rewound.__file__).parent
    asking = set()
    for path in root.rglob("*.py"):
        text = path.read_text()
        if "actors.versions.version" not in text and "release.version" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "rewound.actors.versions.version":
                asking.add(path.relative_to(root).as_posix())
            if isinstance(node, ast.Attribute) and node.attr == "version":
                owner = node.value
                if getattr(owner, "attr", getattr(owner, "id", "")) == "release":
                    asking.add(path.relative_to(root).as_posix())
    assert asking - {"actors/versions/version.py"} == KNOW_THE_VERSION


def test_alpha_and_beta_versions_announce_their_end() -> None:
    def warning(version: str, group: str, of: str, plural: str) -> str:
        release = choose_release(version, "AllAlpha=true,AllBeta=true")
        found = built_in(KUBERNETES, release, Enablement(every=True)).find(group, of, plural)
        assert found is not None
        return found.deprecation_warning

    def ends(group: str, of: str, kind: str, deprecated: str, removed: str) -> str:
        return f"{group}/{of} {kind} is deprecated in v{deprecated}+, unavailable in v{removed}+"

    networking, bundles = "networking.k8s.io", ("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle")
    storage, kind = "storage.k8s.io", "VolumeAttributesClass"
    instead = f"; use {storage}/v1 {kind}"
    assert warning("1.33", networking, "v1beta1", "ipaddresses") == ""
    assert warning("1.34", networking, "v1beta1", "ipaddresses") == ends(
        networking, "v1beta1", "IPAddress", "1.34", "1.37"
    )
    assert warning("1.30", networking, "v1alpha1", "servicecidrs") == ends(
        networking, "v1alpha1", "ServiceCIDR", "1.30", "1.33"
    )
    assert [
        warning(one, *bundles[:2], "clustertrustbundles") for one in ("1.28", "1.31", "1.33", "1.36")
    ] == [
        "",
        ends(*bundles, "1.29", "1.32"),
        "",
        ends(*bundles, "1.34", "1.37"),
    ]
    assert warning("1.33", storage, "v1alpha1", "volumeattributesclasses") == ends(
        storage, "v1alpha1", kind, "1.32", "1.35"
    )
    assert warning("1.34", storage, "v1alpha1", "volumeattributesclasses").endswith(instead)
    assert warning("1.36", storage, "v1beta1", "volumeattributesclasses").endswith(instead)
    silent = ("admissionregistration.k8s.io", "v1alpha1", "validatingadmissionpolicies")
    assert warning("1.31", *silent) == ""
