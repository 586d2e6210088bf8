"""Pod: every volume source, its required and forbidden fields."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import LABEL, SUBDOMAIN, create_causes, pod, volume_causes
from tests.cases import cases

ONE_SOURCE = "Forbidden: may not specify more than 1 volume type"
UNITS = "must be between 0 and 255, inclusive"
IQN = "iqn.2001-04.com.example:a"
PAIRS = "must be a host:port pair or multiple pairs separated by commas"

VALID: list[dict[str, Any]] = [
    {"hostPath": {"path": "/a/..b", "type": "Socket"}},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"gitRepo": {"repository": "r", "directory": "."}},
    {"gcePersistentDisk": {"pdName": "d", "partition": 255}},
    {"awsElasticBlockStore": {"volumeID": "v"}},
    {"nfs": {"server": "s", "path": "/"}},
    {"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 255}},
    {"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 0}},
    {"iscsi": {"targetPortal": "p", "iqn": "naa." + "0" * 32, "lun": 0}},
    {"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "chapAuthDiscovery": True, "secretRef": {}}},
    {"glusterfs": {"endpoints": "e", "path": "p"}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
    {"flexVolume": {"driver": "d", "options": {"a": "1", "example.com/b": "2"}}},
    {"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}},
    {"cephfs": {"monitors": ["m"]}},
    {"flocker": {"datasetName": "d"}},
    {"fc": {"wwids": ["w"]}},
    {"fc": {"targetWWNs": ["t"], "lun": 0}},
    {"azureFile": {"secretName": "s", "shareName": "n"}},
    {"vsphereVolume": {"volumePath": "p"}},
    {"quobyte": {"registry": "a:1,[::1]:2", "volume": "v", "tenant": "t" * 64}},
    {"azureDisk": {"diskName": "d", "diskURI": "https://x"}},
    {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x", "kind": "Managed"}},
    {"photonPersistentDisk": {"pdID": "p"}},
    {"portworxVolume": {"volumeID": "v"}},
    {"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {}}},
    {"storageos": {"volumeName": "v", "volumeNamespace": "n"}},
    {"csi": {"driver": "D.example.com", "nodePublishSecretRef": {"name": "s"}}},
]


@cases("source", VALID, ids=lambda source: next(iter(source)))
def test_create_accepts_valid_sources(kinds: Definitions, source: dict[str, Any]) -> None:
    assert volume_causes(kinds, **source) == []


INVALID: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"hostPath": {"path": ""}}, [("hostPath.path", "Required value")]),
    ({"hostPath": {"path": "/../x"}}, [("hostPath.path", "Invalid value: \"/../x\": must not contain '..'")]),
    (
        {"hostPath": {"path": "/a", "type": "Pipe"}},
        [
            (
                "hostPath.type",
                'Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", "Directory", '
                '"DirectoryOrCreate", "File", "FileOrCreate", "Socket"',
            )
        ],
    ),
    (
        {"emptyDir": {"sizeLimit": "-1"}},
        [("emptyDir.sizeLimit", "Forbidden: SizeLimit field must be a valid resource quantity")],
    ),
    (
        {"gitRepo": {"repository": "", "directory": "/x"}},
        [
            ("gitRepo.repository", "Required value"),
            ("gitRepo.directory", 'Invalid value: "/x": must be a relative path'),
        ],
    ),
    (
        {"gcePersistentDisk": {"pdName": "", "partition": 256}},
        [
            ("persistentDisk.pdName", "Required value"),
            ("persistentDisk.partition", "Invalid value: 256: must be between 1 and 255, inclusive"),
        ],
    ),
    (
        {"awsElasticBlockStore": {"volumeID": "", "partition": -1}},
        [
            ("awsElasticBlockStore.volumeID", "Required value"),
            ("awsElasticBlockStore.partition", "Invalid value: -1: must be between 1 and 255, inclusive"),
        ],
    ),
    (
        {"nfs": {}},
        [
            ("nfs.server", "Required value"),
            ("nfs.path", "Required value"),
            ("nfs.path", 'Invalid value: "": must be an absolute path'),
        ],
    ),
    ({"iscsi": {}}, [("iscsi.targetPortal", "Required value"), ("iscsi.iqn", "Required value")]),
    (
        {"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 256}},
        [
            ("iscsi.iqn", 'Invalid value: "x": must be valid format starting with iqn, eui, or naa'),
            ("iscsi.lun", f"Invalid value: 256: {UNITS}"),
        ],
    ),
    (
        {"iscsi": {"targetPortal": "p", "iqn": "iqn.2001.bad", "lun": 0, "chapAuthSession": True}},
        [
            ("iscsi.iqn", 'Invalid value: "iqn.2001.bad": must be valid format'),
            ("iscsi.secretRef", "Required value"),
        ],
    ),
    (
        {"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "initiatorName": "naa.1"}},
        [("iscsi.initiatorname", 'Invalid value: "naa.1": must be valid format')],
    ),
    (
        {"iscsi": {"targetPortal": "p" * 63, "iqn": IQN, "lun": 0, "initiatorName": IQN}},
        [
            (
                "name",
                'Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 '
                "characters if iscsi.initiatorName is specified.",
            )
        ],
    ),
    ({"glusterfs": {}}, [("glusterfs.endpoints", "Required value"), ("glusterfs.path", "Required value")]),
    ({"persistentVolumeClaim": {}}, [("persistentVolumeClaim.claimName", "Required value")]),
    ({"rbd": {}}, [("rbd.monitors", "Required value"), ("rbd.image", "Required value")]),
    ({"flexVolume": {}}, [("flexVolume.driver", "Required value")]),
    (
        {"cinder": {"volumeID": "", "secretRef": {}}},
        [("cinder.volumeID", "Required value"), ("cinder.secretRef.name", "Required value")],
    ),
    ({"cephfs": {}}, [("cephfs.monitors", "Required value")]),
    ({"flocker": {}}, [("flocker", "Required value: one of datasetName and datasetUUID is required")]),
    (
        {"flocker": {"datasetName": "a/b", "datasetUUID": "u"}},
        [
            (
                "flocker",
                'Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
            ),
            ("flocker.datasetName", "Invalid value: \"a/b\": must not contain '/'"),
        ],
    ),
    (
        {"fc": {}},
        [("fc.targetWWNs", "Required value: must specify either targetWWNs or wwids, but not both")],
    ),
    (
        {"fc": {"targetWWNs": ["a"]}},
        [("fc.lun", "Required value: lun is required if targetWWNs is specified")],
    ),
    (
        {"fc": {"targetWWNs": ["a"], "wwids": ["b"], "lun": -1}},
        [
            (
                "fc.targetWWNs",
                'Invalid value: []string{"a"}: targetWWNs and wwids can not be specified simultaneously',
            ),
            ("fc.lun", f"Invalid value: -1: {UNITS}"),
        ],
    ),
    (
        {"azureFile": {}},
        [("azureFile.secretName", "Required value"), ("azureFile.shareName", "Required value")],
    ),
    ({"vsphereVolume": {}}, [("vsphereVolume.volumePath", "Required value")]),
    (
        {"quobyte": {}},
        [("quobyte.registry", f"Required value: {PAIRS}"), ("quobyte.volume", "Required value")],
    ),
    (
        {"quobyte": {"registry": "a:1,b", "volume": "v"}},
        [("quobyte.registry", f'Invalid value: "a:1,b": {PAIRS}')],
    ),
    (
        {"quobyte": {"registry": "a:1", "volume": "v", "tenant": "t" * 65}},
        [
            (
                "quobyte.tenant",
                "Required value: must be a UUID and may not exceed a length of 64 characters",
            )
        ],
    ),
    (
        {"azureDisk": {"diskName": "", "diskURI": "", "cachingMode": "x", "kind": "y"}},
        [
            ("azureDisk.diskName", "Required value"),
            ("azureDisk.diskURI", "Required value"),
            (
                "azureDisk.cachingMode",
                'Unsupported value: "x": supported values: "None", "ReadOnly", "ReadWrite"',
            ),
            (
                "azureDisk.kind",
                'Unsupported value: "y": supported values: "Dedicated", "Managed", "Shared"',
            ),
            (
                "azureDisk.diskURI",
                'Unsupported value: "": supported values: '
                '"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"',
            ),
        ],
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Managed"}},
        [
            (
                "azureDisk.diskURI",
                'Unsupported value: "u": supported values: "/subscriptions/{sub-id}/resourcegroups/'
                '{group-name}/providers/microsoft.compute/disks/{disk-id}"',
            )
        ],
    ),
    ({"photonPersistentDisk": {}}, [("photonPersistentDisk.pdID", "Required value")]),
    ({"portworxVolume": {}}, [("portworxVolume.volumeID", "Required value")]),
    (
        {"scaleIO": {}},
        [(f"scaleIO.{part}", "Required value") for part in ("gateway", "system", "volumeName")],
    ),
    (
        {"storageos": {"volumeNamespace": "N", "secretRef": {}}},
        [
            ("storageos.volumeName", "Required value"),
            ("storageos.volumeNamespace", f'Invalid value: "N": {LABEL}'),
            ("storageos.secretRef.name", "Required value"),
        ],
    ),
    (
        {"csi": {}},
        [("csi.driver", "Required value"), ("csi.driver", f'Invalid value: "": {SUBDOMAIN}')],
    ),
    (
        {"csi": {"driver": "a" * 64, "nodePublishSecretRef": {}}},
        [
            ("csi.driver", "Too long: must have at most 63 bytes"),
            ("csi.nodePublishSecretRef.name", "Required value"),
        ],
    ),
    (
        {"csi": {"driver": "a", "nodePublishSecretRef": {"name": "S"}}},
        [("csi.name", f'Invalid value: "S": {SUBDOMAIN}')],
    ),
]


@cases(("source", "causes"), INVALID, ids=lambda value: next(iter(value))[:12])
def test_create_reports_invalid_sources(
    kinds: Definitions, source: Any, causes: list[tuple[str, str]]
) -> None:
    assert volume_causes(kinds, **source) == causes


def test_flex_volume_options_under_api_domains_are_reserved(kinds: Definitions, names: Names) -> None:
    keys = [names.key("x"), names.key("x", "a.b"), names.group("C").upper() + "/x", names.key_domain]
    for key in keys:
        causes = volume_causes(kinds, flexVolume={"driver": "d", "options": {key: "1"}})
        assert [field for field, _ in causes] == [f"flexVolume.options[{key}]"]
        assert causes[0][1].endswith("namespaces are reserved")
    assert volume_causes(kinds, flexVolume={"driver": "d", "options": {f"x{names.key_domain}": "1"}}) == []


def test_volume_has_one_source(kinds: Definitions) -> None:
    assert volume_causes(kinds, emptyDir={}, hostPath={"path": "/x"}) == [("hostPath", ONE_SOURCE)]
    several = {"cephfs": {}, "downwardAPI": {}, "gcePersistentDisk": {"pdName": "d"}}
    assert volume_causes(kinds, **several) == [("cephFS", ONE_SOURCE), ("downwarAPI", ONE_SOURCE)]


def test_volume_names_are_unique_dns_labels(kinds: Definitions) -> None:
    assert create_causes(kinds, volumes=[{"emptyDir": {}}]) == [("spec.volumes[0].name", "Required value")]
    assert create_causes(kinds, volumes=[{"name": "A"}]) == [
        ("spec.volumes[0].name", f'Invalid value: "A": {LABEL}')
    ]
    assert create_causes(kinds, volumes=[{"name": "v"}, {"name": "v"}]) == [
        ("spec.volumes[1].name", 'Duplicate value: "v"')
    ]


def test_missing_lun_is_zero(kinds: Definitions) -> None:
    document = pod(volumes=[{"name": "v", "iscsi": {"targetPortal": "p", "iqn": IQN}}])
    assert kinds.stored("pods", document)["spec"]["volumes"][0]["iscsi"]["lun"] == 0


def test_local_is_no_source_of_pods(kinds: Definitions) -> None:
    """The field is unknown: it is dropped, and a volume without a source is an empty directory."""
    document = pod(volumes=[{"name": "v", "local": {"path": "/x"}}])
    decoded = kinds["pods"].schema.decode_object(document)
    assert decoded.object["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
