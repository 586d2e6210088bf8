"""Objects as Go prints Kubernetes' internal types, which validation sees: versions from 1.34 show them in texts.

Internal types have no JSON names, so that their fields have the names of Go and none is omitted:

    {"apiGroup": "", "kind": "Role"}    {"APIGroup":"","Kind":"Role","Name":""}

Types of the group meta are no internal types, and metadata is embedded. Most internal types have the fields of those of
the API, in their order; `_FIELDS` lists the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from json import dumps
from typing import Any, Final

from rewound.actors.golang.format import Formatted, format_labels, format_value
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    STRING,
    TIME,
    Field,
    ListOf,
    MapOf,
    Struct,
    Type,
    zero,
)
from rewound.actors.runtime.time_limit import need_thread

# Words that Go's names have in upper case; longer ones first.
_INITIALS: Final = (
    *(
        "GMSA",
        "HTTPS",
        "HTTP",
        "ISCSI",
        "CIDR",
        "GRPC",
        "AWS",
        "API",
        "CSI",
        "DNS",
        "GCE",
        "NFS",
        "RBD",
        "TCP",
        "TLS",
    ),
    *("TTL", "UID", "URI", "URL", "FC", "FS", "ID", "IP", "OS", "SE"),
)
_FIRST_WORD: Final = re.compile(f"(?:{'|'.join(one.lower() for one in _INITIALS)})(?=[A-Z]|s?$)")
_OTHER: Final = {
    "caBundle": "CABundle",
    "cel": "CEL",
    "cephfs": "CephFS",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "gid": "GID",
    "iqn": "IQN",
    "jsonPatch": "JSONPatch",
    "pdName": "PDName",
    "qosClass": "QOSClass",
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "tty": "TTY",
    "wwids": "WWIDs",
}
# The internal security context of a pod has these fields of its spec.
_HOST_FIELDS: Final = {
    "hostNetwork": False,
    "hostPID": False,
    "hostIPC": False,
    "shareProcessNamespace": None,
    "hostUsers": None,
}
# Of internal types that differ: their fields in order, with another name after a colon.
_FIELDS: Final = {
    "admissionregistration.ValidatingAdmissionPolicySpec": (
        "paramKind matchConstraints validations matchConditions failurePolicy auditAnnotations variables"
    ),
    "autoscaling.ContainerResourceMetricSource": "name container target",
    "autoscaling.ContainerResourceMetricStatus": "name container current",
    "batch.JobSpec": (
        "parallelism completions podFailurePolicy successPolicy activeDeadlineSeconds backoffLimit "
        "backoffLimitPerIndex maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished "
        "completionMode suspend podReplacementPolicy managedBy"
    ),
    "batch.JobStatus": (
        "conditions startTime completionTime active terminating ready succeeded failed completedIndexes "
        "failedIndexes uncountedTerminatedPods"
    ),
    "coordination.LeaseSpec": (
        "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder"
    ),
    "core.AzureDiskVolumeSource": "diskName diskURI:DataDiskURI cachingMode fsType readOnly kind",
    "core.ContainerStatus": (
        "name state lastState:LastTerminationState ready restartCount image imageID containerID started "
        "allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
    ),
    "core.Event": (
        "metadata involvedObject reason message source firstTimestamp lastTimestamp count type eventTime "
        "series action related reportingComponent:ReportingController reportingInstance"
    ),
    "core.GlusterfsPersistentVolumeSource": "endpoints:EndpointsName path readOnly endpointsNamespace",
    "core.GlusterfsVolumeSource": "endpoints:EndpointsName path readOnly",
    "core.NodeSpec": "podCIDRs providerID unschedulable taints configSource externalID:DoNotUseExternalID",
    "core.NodeStatus": (
        "capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images volumesInUse "
        "volumesAttached config runtimeHandlers features declaredFeatures"
    ),
    "core.PersistentVolumeSpec": (
        "capacity gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi "
        "flexVolume cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk "
        "portworxVolume scaleIO local storageos csi accessModes claimRef persistentVolumeReclaimPolicy "
        "storageClassName mountOptions volumeMode nodeAffinity volumeAttributesClassName"
    ),
    "core.PodSecurityContext": (
        "seLinuxOptions windowsOptions "
        "runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup "
        "fsGroupChangePolicy sysctls seccompProfile appArmorProfile seLinuxChangePolicy"
    ),
    "core.PodSpec": (
        "volumes initContainers containers ephemeralContainers restartPolicy "
        "terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName "
        "automountServiceAccountToken nodeName securityContext imagePullSecrets hostname subdomain "
        "setHostnameAsFQDN affinity schedulerName tolerations hostAliases priorityClassName priority "
        "preemptionPolicy dnsConfig readinessGates runtimeClassName overhead enableServiceLinks "
        "topologySpreadConstraints os schedulingGates resourceClaims resources hostnameOverride "
        "schedulingGroup"
    ),
    "core.PodStatus": (
        "observedGeneration phase conditions message reason nominatedNodeName hostIP hostIPs podIPs "
        "startTime qosClass initContainerStatuses containerStatuses ephemeralContainerStatuses resize "
        "resourceClaimStatuses extendedResourceClaimStatus allocatedResources resources "
        "nodeAllocatableResourceClaimStatuses"
    ),
    "core.RBDPersistentVolumeSource": (
        "monitors:CephMonitors image:RBDImage fsType pool:RBDPool user:RadosUser keyring secretRef readOnly"
    ),
    "core.RBDVolumeSource": (
        "monitors:CephMonitors image:RBDImage fsType pool:RBDPool user:RadosUser keyring secretRef readOnly"
    ),
    "core.Secret": "metadata immutable data type",
    "core.ServiceSpec": (
        "type ports selector clusterIP clusterIPs ipFamilies ipFamilyPolicy externalName externalIPs "
        "loadBalancerIP sessionAffinity sessionAffinityConfig loadBalancerSourceRanges "
        "externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses "
        "allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution"
    ),
    "core.Volume": (
        "name hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi "
        "glusterfs persistentVolumeClaim rbd quobyte flexVolume cinder cephfs flocker downwardAPI fc "
        "azureFile configMap vsphereVolume azureDisk photonPersistentDisk projected portworxVolume "
        "scaleIO storageos csi ephemeral image"
    ),
    "resource.DeviceAttribute": (
        "int:IntValue bool:BoolValue string:StringValue version:VersionValue ints:IntValues "
        "bools:BoolValues strings:StringValues versions:VersionValues"
    ),
    "storage.CSIDriverSpec": (
        "attachRequired fsGroupPolicy podInfoOnMount volumeLifecycleModes storageCapacity tokenRequests "
        "requiresRepublish seLinuxMount nodeAllocatableUpdatePeriodSeconds serviceAccountTokenInSecrets "
        "preventPodSchedulingIfMissing"
    ),
}
_LATER: Final = frozenset(("1.34", "1.35", "1.36"))  # versions that show JSON instead of Go's notation
MOST_LINES: Final = 5000  # of the objects whose difference an error shows
FEW_VALUES: Final = 300


def shown(struct: Struct, value: Any) -> Formatted:
    """Return a value of a type for an error: that of the internal type in Go's notation until 1.33, later in JSON.

    Go prints addresses of pointers, which say nothing: a value with any is JSON of the API until 1.33.
    """
    if value is None:
        return Formatted(format_value(None), None)
    try:
        text = _in_go(struct, value)
    except _HasPointers:
        text = format_value(value)
    return Formatted(text, internal_form(struct, value))


class _HasPointers(Exception):
    pass


def _in_go(type_: Type, value: Any, pointer: bool = False) -> str:
    """Write a value in Go's notation. Raises _HasPointers."""
    if type_ is TIME and pointer:
        return "<nil>" if value is None else _date(value)
    if pointer:
        if value is not None:
            raise _HasPointers
        return f"(*{_go_type(type_)})(nil)"
    if isinstance(type_, Struct):
        if "metadata" in type_.by_name or type_.of == "core.v1.PodSpec":
            raise _HasPointers
        members = ", ".join(
            f"{go_name}:{_in_go(field.type, (value or {}).get(field.name), field.pointer)}"
            for field, go_name in _internal_fields(type_)
            if field.since not in _LATER
        )
        return f"{_go_type(type_)}{{{members}}}"
    if isinstance(type_, ListOf):
        if value is None:
            return f"{_go_type(type_)}(nil)"
        return f"{_go_type(type_)}{{{', '.join(_in_go(type_.item, one) for one in value)}}}"
    if type_ in (STRING, BOOL, INT32, INT64):
        return format_value(zero(type_, defaults=False) if value is None else value)
    if isinstance(type_, MapOf) and type_.value is STRING:
        return format_labels(value)
    raise _HasPointers


def _date(value: str) -> str:
    moment = datetime.fromisoformat(value)
    clock = ", ".join(str(one) for one in (moment.day, moment.hour, moment.minute, moment.second, 0))
    return f"time.Date({moment.year}, time.{moment:%B}, {clock}, time.Local)"


def _go_type(type_: Type) -> str:
    if isinstance(type_, Struct):
        group = type_.of.partition(".")[0]
        return f"{'v1' if group == 'meta' else group}.{type_.name}"
    if isinstance(type_, ListOf):
        return type_.go_name or f"[]{_go_type(type_.item)}"
    return type_.go_type


def internal_form(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, ListOf):
        return [internal_form(type_.item, item) for item in value]
    if isinstance(type_, MapOf):
        return {key: internal_form(type_.value, value[key]) for key in sorted(value)}
    if not isinstance(type_, Struct) or type_.of.startswith("meta."):
        return value
    if type_.of == "core.v1.PodSpec":
        of_host = {name: value[name] for name in _HOST_FIELDS if name in value}
        value = {**value, "securityContext": {**(value.get("securityContext") or {}), **of_host}}
    made: dict[str, Any] = {}
    if type_.of == "core.v1.PodSecurityContext":
        made = {_go_name(one): value.get(one, zero_) for one, zero_ in _HOST_FIELDS.items()}
    for field, go_name in _internal_fields(type_):
        if field.name == "metadata":
            made |= value.get("metadata") or {}
            continue
        member = value.get(field.name)
        if member is None and not field.pointer:
            member = zero(field.type, defaults=False)
        made[go_name] = internal_form(field.type, member)
    return made


def _internal_fields(struct: Struct) -> Iterator[tuple[Field, str]]:
    """Yield the fields that the internal type has, in its order and with its names."""
    group, _, name = struct.of.partition(".")
    listed = _FIELDS.get(f"{group}.{name.rpartition('.')[2]}")
    if listed is None:
        yield from ((field, _go_name(field.name)) for field in struct.fields if not field.until)
        return
    for one in listed.split():
        name, _, go_name = one.partition(":")
        if name in struct.by_name:
            yield struct.by_name[name], go_name or _go_name(name)


def internal_difference(struct: Struct, old: Any, new: Any) -> str:
    """Return how two values of a type differ, as lines of their JSON with three lines around each change."""
    if _is_large(old) or _is_large(new):
        need_thread()  # with many equal lines, finding the difference of 5,000 takes a quarter of a second
    before, after = (_lines(internal_form(struct, one)) for one in (old, new))
    if len(before) + len(after) > MOST_LINES:
        return ""
    from difflib import unified_diff  # only refused updates need it

    return "".join(islice(unified_diff(before, after, n=3), 2, None))


def _is_large(value: Any) -> bool:
    """Whether a value has more than a few hundred values in it; reads no more of it than that."""
    remaining, seen = [value], 0
    while remaining and seen <= FEW_VALUES:
        seen += 1
        one = remaining.pop()
        if isinstance(one, list | dict):
            remaining += islice(one.values() if isinstance(one, dict) else one, FEW_VALUES)
    return seen > FEW_VALUES


def _lines(value: Any) -> list[str]:
    text = dumps(value, indent=1, ensure_ascii=False)
    for one in "<>&":
        text = text.replace(one, f"\\u{ord(one):04x}")
    return [f"{line}\n" for line in text.split("\n")]


def _go_name(name: str) -> str:
    if name in _OTHER:
        return _OTHER[name]
    found = _FIRST_WORD.match(name)
    return name[: found.end()].upper() + name[found.end() :] if found else name[0].upper() + name[1:]
