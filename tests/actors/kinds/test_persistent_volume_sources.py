"""Sources of persistent volumes: exactly one, its required fields and defaults."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "persistentvolumes"
SECRET = {"name": "s", "namespace": "n"}
ISCSI = {"targetPortal": "p:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 1}


def volume(**sources: Any) -> dict[str, Any]:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **sources}
    return {"metadata": {"name": "a"}, "spec": spec}


VALID: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"iscsi": ISCSI}, {"iscsiInterface": "default"}),
    (
        {"rbd": {"monitors": ["m"], "image": "i"}},
        {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    ),
    (
        {"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": SECRET}},
        {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    ),
    ({"hostPath": {"path": "/x"}}, {"type": ""}),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "https://x.example/d.vhd"}},
        {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    ),
    ({"azureFile": {"secretName": "s", "shareName": "h"}}, {"secretNamespace": None}),
    ({"gcePersistentDisk": {"pdName": "d", "partition": 1}}, {}),
    ({"awsElasticBlockStore": {"volumeID": "v"}}, {}),
    ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": "n"}}, {}),
    ({"flocker": {"datasetName": "d"}}, {}),
    ({"nfs": {"server": "s", "path": "/"}}, {}),
    ({"quobyte": {"registry": "h:1", "volume": "v"}}, {}),
    ({"cephfs": {"monitors": ["m"]}}, {}),
    ({"cinder": {"volumeID": "v", "secretRef": SECRET}}, {}),
    ({"fc": {"wwids": ["w"]}}, {}),
    ({"flexVolume": {"driver": "d", "options": {"a": "b"}}}, {}),
    ({"vsphereVolume": {"volumePath": "p"}}, {}),
    ({"photonPersistentDisk": {"pdID": "p"}}, {}),
    ({"portworxVolume": {"volumeID": "v"}}, {}),
    ({"storageos": {"volumeName": "v", "volumeNamespace": "n", "secretRef": SECRET}}, {}),
    ({"csi": {"driver": "d.example.com", "volumeHandle": "h", "controllerPublishSecretRef": SECRET}}, {}),
]


@cases(("source", "defaults"), VALID, ids=lambda value: "-".join(value))
def test_create_accepts_valid_sources_and_sets_defaults(
    kinds: Definitions, source: Any, defaults: Any
) -> None:
    [(name, given)] = source.items()
    assert kinds.decode(PLURAL, volume(**source))["spec"][name] == {**given, **defaults}
    assert kinds.create_causes(PLURAL, volume(**source)) == []


MISSING: list[tuple[str, dict[str, Any], list[str]]] = [
    ("hostPath", {}, ["path"]),
    ("gcePersistentDisk", {}, ["pdName"]),
    ("awsElasticBlockStore", {}, ["volumeID"]),
    ("glusterfs", {}, ["endpoints", "path"]),
    ("nfs", {"path": "/"}, ["server"]),
    ("rbd", {}, ["monitors", "image"]),
    ("cephfs", {}, ["monitors"]),
    ("iscsi", {}, ["targetPortal", "iqn"]),
    ("iscsi", {**ISCSI, "chapAuthSession": True}, ["secretRef"]),
    ("iscsi", {**ISCSI, "secretRef": {}}, ["secretRef.name"]),
    ("cinder", {}, ["volumeID"]),
    ("cinder", {"volumeID": "v", "secretRef": {}}, ["secretRef.name", "secretRef.namespace"]),
    ("flexVolume", {}, ["driver"]),
    ("azureFile", {}, ["secretName", "shareName"]),
    ("azureFile", {"secretName": "s", "shareName": "h", "secretNamespace": ""}, ["secretNamespace"]),
    ("vsphereVolume", {}, ["volumePath"]),
    ("photonPersistentDisk", {}, ["pdID"]),
    ("portworxVolume", {}, ["volumeID"]),
    ("scaleIO", {}, ["gateway", "system", "volumeName"]),
    ("storageos", {}, ["volumeName"]),
    ("storageos", {"volumeName": "v", "secretRef": {"name": "s"}}, ["secretRef.namespace"]),
    ("csi", {"driver": "d.example.com"}, ["volumeHandle"]),
    (
        "csi",
        {"driver": "d.example.com", "volumeHandle": "h", "nodePublishSecretRef": {}},
        ["nodePublishSecretRef.name", "nodePublishSecretRef.namespace"],
    ),
    (
        "csi",
        {"driver": "d.example.com", "volumeHandle": "h", "controllerExpandSecretRef": {"name": "s"}},
        ["controllerExpandSecretRef.namespace"],
    ),
]


@cases(("name", "source", "missing"), MISSING)
def test_create_reports_missing_fields(
    kinds: Definitions, name: str, source: Any, missing: list[str]
) -> None:
    reported = {"gcePersistentDisk": "persistentDisk"}.get(name, name)
    assert kinds.create_causes(PLURAL, volume(**{name: source})) == [
        (f"spec.{reported}.{part}", "Required value") for part in missing
    ]


LONG_PORTAL = "p" * 63

INVALID: list[tuple[str, dict[str, Any], str, str]] = [
    ("iscsi", {**ISCSI, "iqn": "no"}, "iqn", 'Invalid value: "no": must be valid format'),
    ("iscsi", {**ISCSI, "lun": 256}, "lun", "Invalid value: 256: must be between 0 and 255, inclusive"),
    (
        "iscsi",
        {**ISCSI, "initiatorName": "iqn.no"},
        "initiatorname",
        'Invalid value: "iqn.no": must be valid format',
    ),
    (
        "iscsi",
        {**ISCSI, "targetPortal": LONG_PORTAL, "initiatorName": "iqn.2001-04.com.example:a"},
        "targetportal",
        f'Invalid value: "{LONG_PORTAL}": Total length of <volume name>:<iscsi.targetPortal> must be under 64'
        " characters if iscsi.initiatorName is specified.",
    ),
    (
        "glusterfs",
        {"endpoints": "e", "path": "p", "endpointsNamespace": ""},
        "endpointsNamespace",
        'Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name',
    ),
    ("hostPath", {"path": "/a/../b"}, "path", "Invalid value: \"/a/../b\": must not contain '..'"),
    ("local", {"path": "/a/../b"}, "path", "Invalid value: \"/a/../b\": must not contain '..'"),
]


@cases(("name", "source", "field", "message"), INVALID)
def test_create_reports_invalid_fields(
    kinds: Definitions, name: str, source: Any, field: str, message: str
) -> None:
    causes = kinds.create_causes(PLURAL, volume(**{name: source}))
    assert causes[0] == (f"spec.{name}.{field}", message)


def test_names_in_sources_are_validated(kinds: Definitions) -> None:
    invalid = volume(storageos={"volumeName": "Bad_", "volumeNamespace": "Bad_"})
    assert [field for field, _ in kinds.create_causes(PLURAL, invalid)] == [
        "spec.storageos.volumeName",
        "spec.storageos.volumeNamespace",
    ]
    invalid = volume(glusterfs={"endpoints": "e", "path": "p", "endpointsNamespace": "Bad_"})
    assert [field for field, _ in kinds.create_causes(PLURAL, invalid)] == [
        "spec.glusterfs.endpointsNamespace"
    ]
    invalid = volume(
        csi={
            "driver": "d",
            "volumeHandle": "h",
            "nodePublishSecretRef": {"name": "Bad_", "namespace": "Bad_"},
        }
    )
    assert [field for field, _ in kinds.create_causes(PLURAL, invalid)] == [
        "spec.csi.nodePublishSecretRef.name",
        "spec.csi.nodePublishSecretRef.namespace",
    ]


def test_flex_volume_options_under_api_domains_are_reserved(kinds: Definitions, names: Names) -> None:
    key = names.key("x")
    [(field, message)] = kinds.create_causes(
        PLURAL, volume(flexVolume={"driver": "d", "options": {key: "v"}})
    )
    assert field == f"spec.flexVolume.options[{key}]" and message.endswith("namespaces are reserved")


def test_volume_has_exactly_one_source(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, volume()) == [("spec", "Required value: must specify a volume type")]
    many = volume(
        hostPath={"path": "/x"}, cephfs={"monitors": ["m"]}, local={"path": "/x"}, csi={"driver": "d"}
    )
    assert kinds.create_causes(PLURAL, many) == [
        (f"spec.{name}", "Forbidden: may not specify more than 1 volume type")
        for name in ("cephFS", "local", "csi")
    ]


def test_local_volume_needs_node_affinity(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, volume(local={"path": "/mnt"})) == [
        ("spec.nodeAffinity", "Required value: Local volume requires node affinity")
    ]
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "h", "operator": "Exists"}]}]}
    }
    assert (
        kinds.create_causes(PLURAL, volume(local={"path": "/mnt", "fsType": "ext4"}, nodeAffinity=affinity))
        == []
    )
