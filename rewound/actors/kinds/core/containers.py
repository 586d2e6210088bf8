"""Containers of a pod: main, init and ephemeral containers, with their ports, probes, hooks, variables and mounts.

All three share most of their fields and rules. Init containers run one after the other and have no probes; ephemeral
containers have no ports, resources, probes or lifecycle hooks. An init container that always restarts is a sidecar:
it runs beside the main containers, and may have probes.

`is_plain` is a fast check that accepts plain containers: those with common fields only, all of them valid. It repeats
the rules of containers only for speed: it reads only the common fields and builds no paths or error texts. True means
that the full rules would find no error; False means that the full rules have to run. A test checks that the two
agree.

An image reference names a fixed tag or digest, or the latest image, which sets the default of the pull policy:

    registry.example:5000/team/app:1.2@sha256:...
    |---- domain -------| |-path-| tag  digest

No image is invalid because of its name; a name that cannot be parsed does not name the latest image. `re` compiles
the patterns of rarely used rules on first use: compiling them all would take longer than importing the kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from rewound.actors.kinds.core.resources import (
    RESOURCE_REQUIREMENTS,
    STANDARD_CONTAINER_RESOURCES,
    claim_rules,
    is_sidecar,
    nanos,
    requirement_rules,
    round_up,
    shown_name,
)
from rewound.actors.kinds.core.security_context import SECURITY_CONTEXT, context_rules
from rewound.actors.kinds.core.volume_sources import (
    IN_VARIABLES,
    IN_VARIABLES_WITH_HOST_IPS,
    OBJECT_FIELD_SELECTOR,
    RESOURCE_FIELD_SELECTOR,
    amount_reference_rules,
    field_reference_rules,
)
from rewound.actors.kinds.core.volumes import Volumes
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    config_key,
    descending,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    header_name,
    invalid,
    is_config_key,
    is_label,
    is_port_name,
    is_subdomain,
    is_variable,
    name_is_subdomain,
    not_found,
    not_supported,
    port_name,
    port_number,
    relaxed_variable_name,
    required,
    reworded,
    too_many,
    variable_name,
    without_backsteps,
)
from rewound.actors.messages import Object
from rewound.actors.versions.features import (
    BARE_NAMES_IN_PODS,
    ENV_FILES,
    HOST_IPS,
    HOST_PORTS_OF_PODS,
    RELAXED_VARIABLES,
    RESIZE,
    RESTART_ALL,
    RESTART_FOR_SIDECARS,
    RESTART_RULES,
    SIDECARS_EXIST,
    SLEEP_ZERO,
    ZERO_SLEEP_IN_TEXTS,
)

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

CONTAINER_PORT = Struct(
    "core.v1.ContainerPort",
    Field("name", STRING, 1),
    Field("hostPort", INT32, 2),
    Field("containerPort", INT32, 3, required=True, always=True),
    Field("protocol", STRING, 4, default="TCP", enum=PROTOCOLS),
    Field("hostIP", STRING, 5),
)


def port_rules(errors: FieldErrors, ports: list[Object], field: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if name:
            _port_name_rules(errors, name, names, f"{field}[{index}].name")
        if (
            not 1 <= port["containerPort"] <= 65535
            or port.get("protocol") not in PROTOCOLS
            or "hostPort" in port
        ):
            _port_number_rules(errors, port, f"{field}[{index}]")


def _port_name_rules(errors: FieldErrors, name: str, taken: set[str], field: str) -> None:
    wrong = port_name(name)
    if wrong:
        errors.add_each(field, name, wrong)
        return
    if name in taken:
        errors.add(duplicate(field, name))
        return
    taken.add(name)


def _port_number_rules(errors: FieldErrors, port: Object, field: str) -> None:
    number, host, protocol = port["containerPort"], port.get("hostPort", 0), port.get("protocol", "")
    if number:
        errors.add_each(f"{field}.containerPort", number, port_number(number))
    else:
        errors.add(required(f"{field}.containerPort"))
    if host:
        errors.add_each(f"{field}.hostPort", host, port_number(host))
    if not protocol:
        errors.add(required(f"{field}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", protocol, PROTOCOLS))


def host_port_rules(errors: FieldErrors, containers: list[Object], field: str) -> None:
    """Each host port may lead to one container only."""
    taken: set[str] = set()
    for at, container in enumerate(containers):
        if "ports" not in container:
            continue
        for index, port in enumerate(container["ports"]):
            if "hostPort" not in port:
                continue
            number = port["hostPort"]
            address = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if address in taken:
                errors.add(duplicate(f"{field}[{at}].ports[{index}].hostPort", address))
            taken.add(address)


def set_host_port_defaults(containers: list[Object]) -> None:
    """With hostNetwork, every container port is a host port."""
    for container in containers:
        for index, port in enumerate(container.get("ports", ())):
            if "hostPort" not in port and port["containerPort"]:
                filled = {**port, "hostPort": port["containerPort"]}
                container["ports"][index] = CONTAINER_PORT.arranged(filled)


def host_network_rules(errors: FieldErrors, containers: list[Object], field: str, *, of_pod: bool) -> None:
    """With hostNetwork, ports are host ports; those of a template may be left out in later versions."""
    later = HOST_PORTS_OF_PODS in errors.features
    for at, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort", 0)
            if host == port["containerPort"] or (later and not of_pod and not host):
                continue
            if later:
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.add(invalid(f"{field}[{at}].ports[{index}].hostPort", host, text))
            else:
                errors.add(
                    invalid(
                        f"{field}[{at}].ports[{index}].containerPort",
                        port["containerPort"],
                        "must match `hostPort` when `hostNetwork` is true",
                    )
                )


CONFIG_MAP_ENV_SOURCE = Struct(
    "core.v1.ConfigMapEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
SECRET_ENV_SOURCE = Struct(
    "core.v1.SecretEnvSource",
    Field("name", STRING, 1, embedded=1),
    Field("optional", BOOL, 2, pointer=True),
)
ENV_FROM_SOURCE = Struct(
    "core.v1.EnvFromSource",
    Field("prefix", STRING, 1),
    Field("configMapRef", CONFIG_MAP_ENV_SOURCE, 2, pointer=True),
    Field("secretRef", SECRET_ENV_SOURCE, 3, pointer=True),
)
CONFIG_MAP_KEY_SELECTOR = Struct(
    "core.v1.ConfigMapKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
SECRET_KEY_SELECTOR = Struct(
    "core.v1.SecretKeySelector",
    Field("name", STRING, 1, embedded=1),
    Field("key", STRING, 2, required=True, always=True),
    Field("optional", BOOL, 3, pointer=True),
    atomic=True,
)
FILE_KEY_SELECTOR = Struct(
    "core.v1.FileKeySelector",
    Field("volumeName", STRING, 1, required=True, always=True),
    Field("path", STRING, 2, required=True, always=True),
    Field("key", STRING, 3, required=True, always=True),
    Field("optional", BOOL, 4, pointer=True),
    atomic=True,
)
ENV_VAR_SOURCE = Struct(
    "core.v1.EnvVarSource",
    Field("fieldRef", OBJECT_FIELD_SELECTOR, 1, pointer=True),
    Field("resourceFieldRef", RESOURCE_FIELD_SELECTOR, 2, pointer=True),
    Field("configMapKeyRef", CONFIG_MAP_KEY_SELECTOR, 3, pointer=True),
    Field("secretKeyRef", SECRET_KEY_SELECTOR, 4, pointer=True),
    Field("fileKeyRef", FILE_KEY_SELECTOR, 5, pointer=True, since="1.34", gate="EnvFiles"),
)
ENV_VAR = Struct(
    "core.v1.EnvVar",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2),
    Field("valueFrom", ENV_VAR_SOURCE, 3, pointer=True),
)

ONE_VARIABLE_SOURCE: Final = "may not have more than one field specified at a time"


def _variable_name(errors: FieldErrors, name: str) -> list[str]:
    return relaxed_variable_name(name) if RELAXED_VARIABLES in errors.features else variable_name(name)


def variable_rules(errors: FieldErrors, variables: list[Object], field: str) -> None:
    for index, variable in enumerate(variables):
        name = variable["name"]
        if not name:
            errors.add(required(f"{field}[{index}].name"))
        elif wrong := _variable_name(errors, name):
            errors.add_each(f"{field}[{index}].name", name, wrong)
        if "valueFrom" in variable:
            _variable_source_rules(errors, variable, f"{field}[{index}].valueFrom")


def _variable_source_rules(errors: FieldErrors, variable: Object, field: str) -> None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        known = IN_VARIABLES_WITH_HOST_IPS if HOST_IPS in errors.features else IN_VARIABLES
        field_reference_rules(errors, source["fieldRef"], known, f"{field}.fieldRef")
    if "resourceFieldRef" in source:
        amount_reference_rules(errors, source["resourceFieldRef"], f"{field}.resourceFieldRef")
    for part in ("configMapKeyRef", "secretKeyRef"):
        if part in source:
            _variable_key_rules(errors, source[part], f"{field}.{part}")
    if "fileKeyRef" in source:
        _file_key_rules(errors, source["fileKeyRef"], f"{field}.fileKeyRef")
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        later = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.add(invalid(field, "", reworded(text, ENV_FILES, later)))
    elif variable.get("value"):
        errors.add(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.add(invalid(field, "", ONE_VARIABLE_SOURCE))


def _variable_key_rules(errors: FieldErrors, source: Object, field: str) -> None:
    name, key = source.get("name", ""), source["key"]
    errors.add_each(f"{field}.name", name, dns_subdomain(name))
    if key:
        errors.add_each(f"{field}.key", key, config_key(key))
    else:
        errors.add(required(f"{field}.key"))


def _file_key_rules(errors: FieldErrors, source: Object, field: str) -> None:
    for part, check in (
        ("key", relaxed_variable_name),
        ("volumeName", dns_label),
        ("path", without_backsteps),
    ):
        value = source[part]
        if value:
            errors.add_each(f"{field}.{part}", value, check(value))
        else:
            errors.add(required(f"{field}.{part}"))


def file_volume_rules(errors: FieldErrors, spec: Object, containers: Iterable[tuple[Object, str]]) -> None:
    """Files with variables are in volumes of the type emptyDir."""
    volumes: dict[str, Object] | None = None
    for container, field in containers:
        for index, variable in enumerate(container.get("env", ())):
            source = variable.get("valueFrom", {}).get("fileKeyRef")
            if source is None:
                continue
            if volumes is None:
                volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
            name, here = source["volumeName"], f"{field}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.add(not_found(here, name))
            elif "emptyDir" not in volumes[name]:
                errors.add(invalid(here, name, "referenced volume must be of type emptyDir"))


def env_from_rules(errors: FieldErrors, sources: list[Object], field: str) -> None:
    """Rules of envFrom: config maps and secrets whose keys all become variables."""
    for index, source in enumerate(sources):
        prefix, here = source.get("prefix", ""), f"{field}[{index}]"
        if prefix:
            errors.add_each(f"{here}.prefix", prefix, _variable_name(errors, prefix))
        given = [part for part in ("configMapRef", "secretRef") if part in source]
        for part in given:
            _variable_name_rules(errors, source[part].get("name", ""), f"{here}.{part}.name")
        if not given:
            errors.add(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.add(invalid(field, "", ONE_VARIABLE_SOURCE))


def _variable_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        errors.add_each(field, name, name_is_subdomain(name, True))
    else:
        errors.add(required(field))


SCHEMES: Final = ("HTTP", "HTTPS")
_TIMINGS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)

EXEC_ACTION = Struct(
    "core.v1.ExecAction",
    Field("command", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
HTTP_HEADER = Struct(
    "core.v1.HTTPHeader",
    Field("name", STRING, 1, required=True, always=True),
    Field("value", STRING, 2, required=True, always=True),
)
HTTP_GET_ACTION = Struct(
    "core.v1.HTTPGetAction",
    Field("path", STRING, 1, default="/"),
    Field("port", INT_OR_STRING, 2, required=True),
    Field("host", STRING, 3),
    Field("scheme", STRING, 4, enum=("HTTP", "HTTPS"), default="HTTP"),
    Field("httpHeaders", ListOf(HTTP_HEADER), 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
TCP_SOCKET_ACTION = Struct(
    "core.v1.TCPSocketAction",
    Field("port", INT_OR_STRING, 1, required=True),
    Field("host", STRING, 2),
)
GRPC_ACTION = Struct(
    "core.v1.GRPCAction",
    Field("port", INT32, 1, required=True, always=True),
    Field("service", STRING, 2, pointer=True, always=True, default=""),
)
PROBE = Struct(
    "core.v1.Probe",
    Field("exec", EXEC_ACTION, 1, embedded=1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, embedded=1, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, embedded=1, pointer=True),
    Field("grpc", GRPC_ACTION, 4, embedded=1, pointer=True),
    Field("initialDelaySeconds", INT32, 2),
    Field("timeoutSeconds", INT32, 3, default=1),
    Field("periodSeconds", INT32, 4, default=10),
    Field("successThreshold", INT32, 5, default=1),
    Field("failureThreshold", INT32, 6, default=3),
    Field("terminationGracePeriodSeconds", INT64, 7, pointer=True),
)
SLEEP_ACTION = Struct(
    "core.v1.SleepAction",
    Field("seconds", INT64, 1, required=True, always=True),
)
LIFECYCLE_HANDLER = Struct(
    "core.v1.LifecycleHandler",
    Field("exec", EXEC_ACTION, 1, pointer=True),
    Field("httpGet", HTTP_GET_ACTION, 2, pointer=True),
    Field("tcpSocket", TCP_SOCKET_ACTION, 3, pointer=True),
    Field("sleep", SLEEP_ACTION, 4, pointer=True, since="1.29"),
)
LIFECYCLE = Struct(
    "core.v1.Lifecycle",
    Field("postStart", LIFECYCLE_HANDLER, 1, pointer=True),
    Field("preStop", LIFECYCLE_HANDLER, 2, pointer=True),
    Field("stopSignal", STRING, 3, pointer=True, since="1.33"),
)


def container_probe_rules(errors: FieldErrors, container: Object, spec: Object, field: str) -> None:
    """Validate containers that may have probes; `spec` is that of their pod."""
    if "lifecycle" in container:
        lifecycle = container["lifecycle"]
        for part in ("postStart", "preStop"):
            if part in lifecycle:
                here = f"{field}.lifecycle.{part}"
                _handler_rules(errors, lifecycle[part], here, spec.get("terminationGracePeriodSeconds"))
        if "stopSignal" in lifecycle:
            _signal_rules(errors, lifecycle["stopSignal"], spec.get("os"), f"{field}.lifecycle.stopSignal")
    for part in ("livenessProbe", "readinessProbe", "startupProbe"):
        if part in container:
            _probe_rules(errors, container[part], f"{field}.{part}")
            _probe_kind_rules(errors, container[part], part, f"{field}.{part}")


def _probe_kind_rules(errors: FieldErrors, probe: Object, kind: str, field: str) -> None:
    if kind == "readinessProbe":
        grace = probe.get("terminationGracePeriodSeconds")
        text = "must not be set for readinessProbes"
        if grace is not None:
            errors.add(invalid(f"{field}.terminationGracePeriodSeconds", grace, text))
        return
    times = probe.get("successThreshold", 0)
    if times != 1:
        errors.add(invalid(f"{field}.successThreshold", times, "must be 1"))


def _probe_rules(errors: FieldErrors, probe: Object, field: str) -> None:
    _handler_rules(errors, probe, field)
    for part in _TIMINGS:
        if probe.get(part, 0) < 0:
            errors.add(invalid(f"{field}.{part}", probe[part], NEGATIVE))
    grace = probe.get("terminationGracePeriodSeconds", 1)
    if grace <= 0:
        errors.add(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0"))


def _signal_rules(errors: FieldErrors, signal: str, system: Object | None, field: str) -> None:
    if system is None:
        errors.add(forbidden(field, "may not be set for containers with empty `spec.os.name`"))
        return
    supported = {"windows": WINDOWS_SIGNALS, "linux": LINUX_SIGNALS}.get(system["name"])
    if supported is not None and signal not in supported:
        errors.add(not_supported(field, signal, sorted(supported)))


def _handler_rules(errors: FieldErrors, handler: Object, field: str, grace: int | None = None) -> None:
    found = False
    for part, rules in _HANDLERS:
        if part not in handler:
            continue
        if found:
            errors.add(forbidden(f"{field}.{part}", "may not specify more than 1 handler type"))
        else:
            rules(errors, handler[part], f"{field}.{part}")
        found = True
    if "sleep" in handler and found:
        errors.add(forbidden(f"{field}.sleep", "may not specify more than 1 handler type"))
    elif "sleep" in handler:
        _sleep_rules(errors, handler["sleep"]["seconds"], grace, f"{field}.sleep")
    elif not found:
        errors.add(required(field, "must specify a handler type"))


def _sleep_rules(errors: FieldErrors, seconds: int, grace: int | None, field: str) -> None:
    if grace is None:
        return
    least = 0 if SLEEP_ZERO in errors.features else 1
    if least <= seconds <= grace:
        return
    text = f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace})"
    if SLEEP_ZERO in errors.features:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    elif ZERO_SLEEP_IN_TEXTS in errors.features:
        text += ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
    errors.add(invalid(field, seconds, text))


def _exec_rules(errors: FieldErrors, action: Object, field: str) -> None:
    if not action.get("command"):
        errors.add(required(f"{field}.command"))


def _http_get_rules(errors: FieldErrors, action: Object, field: str) -> None:
    if not action.get("path"):
        errors.add(required(f"{field}.path"))
    _probe_port_rules(errors, action, field)
    scheme = action.get("scheme", "")
    if scheme not in SCHEMES:
        errors.add(not_supported(f"{field}.scheme", scheme, SCHEMES))
    for header in action.get("httpHeaders", ()):
        errors.add_each(f"{field}.httpHeaders", header["name"], header_name(header["name"]))


def _probe_port_rules(errors: FieldErrors, action: Object, field: str) -> None:
    """Validate a port, given by its number, or by its name among the container's ports."""
    port: Any = action["port"]
    wrong = port_name(port) if isinstance(port, str) else port_number(port)
    errors.add_each(f"{field}.port", port, wrong)


_HANDLERS: Final = (
    ("exec", _exec_rules),
    ("httpGet", _http_get_rules),
    ("tcpSocket", _probe_port_rules),
    ("grpc", _probe_port_rules),
)


WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")
LINUX_SIGNALS: Final = (
    *(
        f"SIG{name}"
        for name in (
            *("ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL"),
            *("PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP"),
            *("TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ"),
        )
    ),
    *("SIGRTMIN", *(f"SIGRTMIN+{number}" for number in range(1, 16))),
    *("SIGRTMAX", *(f"SIGRTMAX-{number}" for number in range(1, 15))),
)

PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
RECURSIVE_READ_ONLY: Final = ("Disabled", "Enabled", "IfPossible")
NOT_UNIQUE: Final = "must be unique"

VOLUME_MOUNT = Struct(
    "core.v1.VolumeMount",
    Field("name", STRING, 1, required=True, always=True),
    Field("readOnly", BOOL, 2),
    Field("recursiveReadOnly", STRING, 7, pointer=True, since="1.30", gate="RecursiveReadOnlyMounts"),
    Field("mountPath", STRING, 3, required=True, always=True),
    Field("subPath", STRING, 4),
    Field("mountPropagation", STRING, 5, pointer=True),
    Field("subPathExpr", STRING, 6),
)
VOLUME_DEVICE = Struct(
    "core.v1.VolumeDevice",
    Field("name", STRING, 1, required=True, always=True),
    Field("devicePath", STRING, 2, required=True, always=True),
)


class _NamesAndPaths(NamedTuple):
    """Names and paths of a container's devices, to check its mounts against, and the reverse."""

    names: frozenset[str]
    paths: frozenset[str]

    @classmethod
    def by(cls, entries: list[Object], part: str) -> _NamesAndPaths:
        """Return the path of the last entry for each volume."""
        paths = {entry["name"]: entry[part] for entry in entries}
        return cls(frozenset(paths), frozenset(paths.values()))


def mount_rules(errors: FieldErrors, container: Object, volumes: Volumes, field: str) -> None:
    """Validate mounts. `field` is the container; messages about paths inside a volume name the list, not the mount."""
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    if not mounts and not devices:
        return
    seen: set[str] = set()
    taken = _NamesAndPaths.by(devices, "devicePath")
    for index, mount in enumerate(mounts):
        path = mount["mountPath"]
        if len(mount) > 2 or path in seen or devices or mount["name"] not in volumes or not path:
            _one_mount_rules(errors, mount, seen, taken, volumes, f"{field}.volumeMounts[{index}]")
            _sub_path_rules(errors, mount, container, f"{field}.volumeMounts", index)
        seen.add(path)
    _device_rules(errors, devices, mounts, volumes, f"{field}.volumeDevices")


def _one_mount_rules(
    errors: FieldErrors, mount: Object, seen: set[str], taken: _NamesAndPaths, volumes: Volumes, field: str
) -> None:
    name, path = mount["name"], mount["mountPath"]
    if not name:
        errors.add(required(f"{field}.name"))
    if name not in volumes:
        errors.add(not_found(f"{field}.name", name))
    if not path:
        errors.add(required(f"{field}.mountPath"))
    if path in seen:
        errors.add(invalid(f"{field}.mountPath", path, NOT_UNIQUE))
    if name in taken.names:
        errors.add(invalid(f"{field}.name", name, "must not already exist in volumeDevices"))
    if path in taken.paths:
        text = "must not already exist as a path in volumeDevices"
        errors.add(invalid(f"{field}.mountPath", path, text))


def _sub_path_rules(errors: FieldErrors, mount: Object, container: Object, field: str, index: int) -> None:
    path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors.add_each(f"{field}.subPath", path, descending(path))
    if expression and path:
        text = "subPathExpr and subPath are mutually exclusive"
        errors.add(invalid(f"{field}[{index}].subPathExpr", expression, text))
    errors.add_each(f"{field}.subPathExpr", expression, descending(expression))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        _propagation_rules(errors, propagation, container, f"{field}.mountPropagation")
    if "recursiveReadOnly" in mount:
        _recursive_rules(errors, mount, f"{field}.recursiveReadOnly")


def _recursive_rules(errors: FieldErrors, mount: Object, field: str) -> None:
    choice = mount["recursiveReadOnly"]
    if choice not in RECURSIVE_READ_ONLY:
        errors.add(not_supported(field, choice, RECURSIVE_READ_ONLY))
    elif choice != "Disabled":
        if not mount.get("readOnly"):
            errors.add(forbidden(field, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            text = "may only be specified when mountPropagation is None or not specified"
            errors.add(forbidden(field, text))


def _propagation_rules(errors: FieldErrors, propagation: str, container: Object, field: str) -> None:
    if propagation not in PROPAGATIONS:
        errors.add(not_supported(field, propagation, PROPAGATIONS))
        return
    if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.add(forbidden(field, text))


def _device_rules(
    errors: FieldErrors, devices: list[Object], mounts: list[Object], volumes: Volumes, field: str
) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    taken = _NamesAndPaths.by(mounts, "mountPath")
    for index, device in enumerate(devices):
        name, path, here = device["name"], device["devicePath"], f"{field}[{index}]"
        _device_name_rules(errors, name, names, volumes, f"{here}.name")
        _device_path_rules(errors, path, paths, f"{here}.devicePath")
        if name in taken.names:
            errors.add(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if path in taken.paths:
            text = "must not already exist as a path in volumeMounts"
            errors.add(invalid(f"{here}.devicePath", path, text))
        if name:
            names.add(name)


def _device_name_rules(errors: FieldErrors, name: str, taken: set[str], volumes: Volumes, field: str) -> None:
    if not name:
        errors.add(required(field))
    if name in taken:
        errors.add(invalid(field, name, NOT_UNIQUE))
    volume = volumes.get(name)
    if volume is None:
        errors.add(not_found(field, name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.add(invalid(field, name, text))


def _device_path_rules(errors: FieldErrors, path: str, taken: set[str], field: str) -> None:
    if not path:
        errors.add(required(field))
    if path in taken:
        errors.add(invalid(field, path, NOT_UNIQUE))
    if without_backsteps(path):
        errors.add(invalid(field, path, "can not contain backsteps ('..')"))
    else:
        taken.add(path)


PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
POLICY_FOR_RULES: Final = "must specify restartPolicy when restart rules are used"
NOT_FOR_INIT_CONTAINERS: Final = "may not be set for init containers"
NOT_FOR_EPHEMERAL_CONTAINERS: Final = "cannot be set for an Ephemeral Container"
SURROUNDED_BY_WHITESPACE: Final = "must not have leading or trailing whitespace"

CONTAINER_RESTART_RULE_ON_EXIT_CODES = Struct(
    "core.v1.ContainerRestartRuleOnExitCodes",
    Field("operator", STRING, 1, required=True),
    Field("values", ListOf(INT32), 2, list_type="set"),
)
CONTAINER_RESTART_RULE = Struct(
    "core.v1.ContainerRestartRule",
    Field("action", STRING, 1, required=True),
    Field("exitCodes", CONTAINER_RESTART_RULE_ON_EXIT_CODES, 2, pointer=True),
)
CONTAINER_RESIZE_POLICY = Struct(
    "core.v1.ContainerResizePolicy",
    Field("resourceName", STRING, 1, required=True, always=True),
    Field("restartPolicy", STRING, 2, required=True, always=True),
)
CONTAINER = Struct(
    "core.v1.Container",
    Field("name", STRING, 1, required=True, always=True),
    Field("image", STRING, 2),
    Field("command", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("args", STRINGS, 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("workingDir", STRING, 5),
    Field(
        "ports",
        ListOf(CONTAINER_PORT),
        6,
        patch="merge",
        merge_key="containerPort",
        list_type="map",
        list_keys=("containerPort", "protocol"),
    ),
    Field("envFrom", ListOf(ENV_FROM_SOURCE), 19, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field(
        "env",
        ListOf(ENV_VAR),
        7,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("resources", RESOURCE_REQUIREMENTS, 8),
    Field(
        "resizePolicy",
        ListOf(CONTAINER_RESIZE_POLICY),
        23,
        list_type="atomic",
        since="1.27",
        gate="InPlacePodVerticalScaling",
    ),
    Field("restartPolicy", STRING, 24, pointer=True, since="1.28"),
    Field(
        "restartPolicyRules",
        ListOf(CONTAINER_RESTART_RULE),
        25,
        list_type="atomic",
        since="1.34",
        gate="ContainerRestartRules",
    ),
    Field(
        "volumeMounts",
        ListOf(VOLUME_MOUNT),
        9,
        patch="merge",
        merge_key="mountPath",
        list_keys=("mountPath",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "volumeDevices",
        ListOf(VOLUME_DEVICE),
        21,
        patch="merge",
        merge_key="devicePath",
        list_keys=("devicePath",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("livenessProbe", PROBE, 10, pointer=True),
    Field("readinessProbe", PROBE, 11, pointer=True),
    Field("startupProbe", PROBE, 22, pointer=True),
    Field("lifecycle", LIFECYCLE, 12, pointer=True),
    Field("terminationMessagePath", STRING, 13, default="/dev/termination-log"),
    Field("terminationMessagePolicy", STRING, 20, enum=("FallbackToLogsOnError", "File"), default="File"),
    Field("imagePullPolicy", STRING, 14, enum=("Always", "IfNotPresent", "Never")),
    Field("securityContext", SECURITY_CONTEXT, 15, pointer=True),
    Field("stdin", BOOL, 16),
    Field("stdinOnce", BOOL, 17),
    Field("tty", BOOL, 18),
)
EPHEMERAL_CONTAINER = Struct(
    "core.v1.EphemeralContainer",
    *(replace(field, embedded=1) for field in CONTAINER.fields),
    Field("targetContainerName", STRING, 2),
)

# Fields after imagePullPolicy.
_AFTER_POLICY: Final = ("securityContext", "stdin", "stdinOnce", "tty", "targetContainerName")
_PROBES: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_FORBIDDEN_IN_EPHEMERAL_CONTAINERS: Final = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
)
CONTAINER_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
MAX_RESTART_RULES: Final = 20
MAX_EXIT_CODES: Final = 255


def set_container_defaults(containers: list[Object]) -> None:
    for container in containers:
        if "imagePullPolicy" not in container:
            policy = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"
            container["imagePullPolicy"] = policy
            for later in _AFTER_POLICY:
                if later in container:
                    container[later] = container.pop(later)
        if container["resources"]:
            for part in ("limits", "requests"):
                if part in container["resources"]:
                    round_up(container["resources"][part])


def set_request_defaults(containers: list[Object]) -> None:
    """Requests default to limits."""
    for container in containers:
        resources = container["resources"]
        if "limits" in resources:
            requests, limits = resources.get("requests"), resources["limits"]
            if not requests:
                resources["requests"] = dict(limits)
            elif not limits.keys() <= requests.keys():
                resources["requests"] = dict(sorted({**limits, **requests}.items()))


class ContainerRules(msgspec.Struct, frozen=True):
    """Validates the containers of one pod."""

    spec: Object  # of the pod
    volumes: Volumes
    api_domain: str  # see core/resources
    indivisible_huge_pages: bool
    claims: frozenset[str] = frozenset()  # names of the pod's resource claims

    def validate_main(self, errors: FieldErrors, containers: list[Object], field: str) -> None:
        if not containers:
            errors.add(required(field))
            return
        names: set[str] = set()
        all_plain = True
        for index, container in enumerate(containers):
            plain = is_plain(container, self.volumes)
            if not plain:
                all_plain = False
                self._common_rules(errors, container, f"{field}[{index}]")
            if container["name"] in names:
                errors.add(duplicate(f"{field}[{index}].name", container["name"]))
            names.add(container["name"])
            if not plain:
                container_probe_rules(errors, container, self.spec, f"{field}[{index}]")
                _restart_rules(errors, container, f"{field}[{index}]")
        # A plain container has no host port.
        if not all_plain:
            host_port_rules(errors, containers, field)

    def validate_init(
        self, errors: FieldErrors, containers: list[Object], main: list[Object], field: str
    ) -> None:
        names = {container["name"] for container in main}
        for index, container in enumerate(containers):
            here, name = f"{field}[{index}]", container["name"]
            self._common_rules(errors, container, here)
            _init_restart_rules(errors, container, here)
            if name in names:
                errors.add(duplicate(f"{here}.name", name))
            elif name:
                names.add(name)
            host_port_rules(errors, [container], field)
            if is_sidecar(container):
                container_probe_rules(errors, container, self.spec, here)
            else:
                for part in _PROBES:
                    if part in container:
                        errors.add(forbidden(f"{here}.{part}", _init_text(errors)))
            if "resizePolicy" in container:
                _init_resize_rules(errors, container, f"{here}.resizePolicy")

    def validate_ephemeral(
        self, errors: FieldErrors, containers: list[Object], others: list[Object], field: str
    ) -> None:
        targets = {container["name"] for container in others}
        names = set(targets)
        for index, container in enumerate(containers):
            here, name = f"{field}[{index}]", container["name"]
            target = container.get("targetContainerName", "")
            self._common_rules(errors, container, here)
            image_whitespace_rules(errors, container, here)
            if name in names:
                errors.add(duplicate(f"{here}.name", name))
            names.add(name)
            if target and target not in targets:
                errors.add(not_found(f"{here}.targetContainerName", target))
            _ephemeral_container_rules(errors, container, here)

    def _common_rules(self, errors: FieldErrors, container: Object, field: str) -> None:
        name, policy = container["name"], container.get("terminationMessagePolicy", "")
        if not name:
            errors.add(required(f"{field}.name"))
        elif wrong := dns_label(name):
            errors.add_each(f"{field}.name", name, wrong)
        if not container.get("image"):
            errors.add(required(f"{field}.image"))
        if policy not in MESSAGE_POLICIES:
            _unsupported_or_missing(errors, policy, MESSAGE_POLICIES, f"{field}.terminationMessagePolicy")
        if "ports" in container:
            port_rules(errors, container["ports"], f"{field}.ports")
        if "env" in container:
            variable_rules(errors, container["env"], f"{field}.env")
        if "envFrom" in container:
            env_from_rules(errors, container["envFrom"], f"{field}.envFrom")
        mount_rules(errors, container, self.volumes, field)
        if container.get("imagePullPolicy") not in PULL_POLICIES:
            policy = container.get("imagePullPolicy", "")
            _unsupported_or_missing(errors, policy, PULL_POLICIES, f"{field}.imagePullPolicy")
        if container["resources"]:
            requirement_rules(
                errors,
                container["resources"],
                f"{field}.resources",
                self.api_domain,
                indivisible_huge_pages=self.indivisible_huge_pages,
            )
            if "claims" in container["resources"]:
                claims = container["resources"]["claims"]
                claim_rules(errors, claims, self.claims, f"{field}.resources.claims")
        if "resizePolicy" in container:
            _resize_rules(errors, container["resizePolicy"], self.spec, f"{field}.resizePolicy")
        if "securityContext" in container:
            in_host = self.spec.get("hostUsers") is not False
            context_rules(
                errors, container["securityContext"], f"{field}.securityContext", users_of_host=in_host
            )


def _init_text(errors: FieldErrors) -> str:
    if SIDECARS_EXIST in errors.features:
        return f"{NOT_FOR_INIT_CONTAINERS} without restartPolicy=Always"
    return NOT_FOR_INIT_CONTAINERS


def _restart_rules(errors: FieldErrors, container: Object, field: str) -> None:
    """Validate how a main container restarts."""
    if RESTART_RULES in errors.features:
        restart_policy_rules(errors, container, field)
    elif "restartPolicy" in container:
        errors.add(forbidden(f"{field}.restartPolicy", "may not be set for non-init containers"))


def _init_restart_rules(errors: FieldErrors, container: Object, field: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy is None:
        if rules:
            errors.add(required(f"{field}.restartPolicy", POLICY_FOR_RULES))
    elif RESTART_RULES not in errors.features:
        if policy != "Always":
            errors.add(not_supported(f"{field}.restartPolicy", policy, ("Always",)))
    elif policy != "Always" or RESTART_ALL in errors.features:
        restart_policy_rules(errors, container, field)
    elif rules:
        text = "restartPolicyRules are not allowed for init containers with restart policy Always"
        errors.add(forbidden(f"{field}.restartPolicyRules", text))


def restart_policy_rules(errors: FieldErrors, container: Object, field: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    if policy is None:
        if not rules:
            return
        errors.add(required(f"{field}.restartPolicy", POLICY_FOR_RULES))
    elif policy not in CONTAINER_RESTART_POLICIES:
        errors.add(not_supported(f"{field}.restartPolicy", policy, CONTAINER_RESTART_POLICIES))
    if len(rules) > MAX_RESTART_RULES:
        errors.add(too_many(f"{field}.restartPolicyRules", len(rules), MAX_RESTART_RULES))
    actions = ("Restart", "RestartAllContainers") if RESTART_ALL in errors.features else ("Restart",)
    for index, rule in enumerate(rules):
        here = f"{field}.restartPolicyRules[{index}]"
        if rule.get("action", "") not in actions:
            errors.add(not_supported(f"{here}.action", rule.get("action", ""), actions))
        _exit_code_rules(errors, rule.get("exitCodes"), f"{here}.exitCodes")


def _exit_code_rules(errors: FieldErrors, codes: Object | None, field: str) -> None:
    if codes is None:
        errors.add(required(field, "must be specified"))
        return
    operator, values = codes.get("operator", ""), codes.get("values", ())
    if operator not in ("In", "NotIn"):
        errors.add(not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    if len(values) > MAX_EXIT_CODES:
        errors.add(too_many(f"{field}.values", len(values), MAX_EXIT_CODES))


def _resize_rules(errors: FieldErrors, policies: list[Object], spec: Object, field: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy["resourceName"], policy["restartPolicy"]
        if name in seen:
            errors.add(duplicate(f"{field}[{index}]", shown_name(errors, name, BARE_NAMES_IN_PODS)))
        seen.add(name)
        if name not in ("cpu", "memory"):
            shown = shown_name(errors, name, BARE_NAMES_IN_PODS)
            _unsupported_or_missing(errors, shown, ("cpu", "memory"), field)
        if restart not in RESIZE_POLICIES:
            _unsupported_or_missing(errors, restart, RESIZE_POLICIES, field)
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            later = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.add(invalid(field, restart, reworded(text, RESTART_FOR_SIDECARS, later)))


def _init_resize_rules(errors: FieldErrors, container: Object, field: str) -> None:
    if RESIZE not in errors.features:
        errors.add(invalid(field, container["resizePolicy"], "must not be set for init containers"))
    if RESTART_FOR_SIDECARS in errors.features and not is_sidecar(container):
        text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
        for index, policy in enumerate(container["resizePolicy"]):
            if policy["restartPolicy"] == "RestartContainer":
                errors.add(invalid(f"{field}[{index}].restartPolicy", "RestartContainer", text))


def _unsupported_or_missing(errors: FieldErrors, value: str, supported: tuple[str, ...], field: str) -> None:
    errors.add(not_supported(field, value, supported) if value else required(field))


def _ephemeral_container_rules(errors: FieldErrors, container: Object, field: str) -> None:
    fields = {**container, "resources": container["resources"] or None}
    for part in _FORBIDDEN_IN_EPHEMERAL_CONTAINERS:
        if fields.get(part) is not None:
            errors.add(forbidden(f"{field}.{part}", NOT_FOR_EPHEMERAL_CONTAINERS))
    for index, mount in enumerate(container.get("volumeMounts", ())):
        for part in ("subPath", "subPathExpr"):
            if part in mount:
                errors.add(forbidden(f"{field}.volumeMounts[{index}].{part}", NOT_FOR_EPHEMERAL_CONTAINERS))


def image_whitespace_rules(errors: FieldErrors, container: Object, field: str) -> None:
    """An image has no spaces around its name. Only pods have this rule: existing templates may have such images."""
    image = container.get("image", "")
    if image != image.strip():
        errors.add(invalid(f"{field}.image", image, SURROUNDED_BY_WHITESPACE))


_IN_VARIABLES: Final = frozenset(IN_VARIABLES)
_PLAIN_TIMINGS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
_EMPTY: Final[dict[str, str]] = {}
# Fields that `is_plain` checks or that have no rules; a container with any other field is not plain.
_PLAIN_FIELDS: Final = frozenset(
    (
        *("name", "image", "command", "args", "workingDir", "ports", "env", "resources", "volumeMounts"),
        *("livenessProbe", "readinessProbe", "startupProbe", "terminationMessagePath", "securityContext"),
        *("terminationMessagePolicy", "imagePullPolicy", "stdin", "stdinOnce", "tty"),
    )
)
_PLAIN_CONTEXT_FIELDS: Final = frozenset(
    ("allowPrivilegeEscalation", "runAsNonRoot", "readOnlyRootFilesystem", "capabilities", "privileged")
)


def is_plain(container: Object, volumes: Volumes) -> bool:
    name, image = container["name"], container.get("image")
    if (
        not is_label(name)
        or len(name) > 63
        or not image
        or image != image.strip()
        or container.get("terminationMessagePolicy") != "File"
        or container.get("imagePullPolicy") not in PULL_POLICIES
    ):
        return False
    if not container.keys() <= _PLAIN_FIELDS:
        return False
    return (
        ("ports" not in container or _are_plain_ports(container["ports"]))
        and ("env" not in container or _are_plain_variables(container["env"]))
        and (not container["resources"] or _are_plain_resources(container["resources"]))
        and ("volumeMounts" not in container or _are_plain_mounts(container["volumeMounts"], volumes))
        and ("securityContext" not in container or _is_plain_context(container["securityContext"]))
        and ("livenessProbe" not in container or _is_plain_probe(container["livenessProbe"]))
        and ("readinessProbe" not in container or _is_plain_probe(container["readinessProbe"]))
        and ("startupProbe" not in container or _is_plain_probe(container["startupProbe"]))
    )


def _are_plain_ports(ports: list[Object]) -> bool:
    names: set[str] = set()
    for port in ports:
        if not 1 <= port["containerPort"] <= 65535 or port.get("protocol") not in PROTOCOLS:
            return False
        if len(port) > 2:
            name = port.get("name")
            if len(port) > 3 or name is None or name in names or not is_port_name(name):
                return False
            names.add(name)
    return True


def _are_plain_variables(variables: list[Object]) -> bool:
    for variable in variables:
        name = variable["name"]
        if not is_variable(name) or name[0] == ".":
            return False
        if "valueFrom" in variable and (len(variable) > 2 or not _is_plain_source(variable["valueFrom"])):
            return False
    return True


def _is_plain_source(source: Object) -> bool:
    if len(source) != 1:
        return False
    if "fieldRef" in source:
        reference = source["fieldRef"]
        return reference.get("apiVersion") == "v1" and reference["fieldPath"] in _IN_VARIABLES
    reference = source.get("secretKeyRef") or source.get("configMapKeyRef")
    if not reference:
        return False
    name, key = reference.get("name", ""), reference["key"]
    if len(name) > 253 or len(key) > 253 or key[:1] == ".":
        return False
    return bool(is_subdomain(name)) and bool(is_config_key(key))


def _are_plain_resources(resources: Object) -> bool:
    if "claims" in resources:
        return False
    limits = resources.get("limits")
    if limits:
        for name, amount in limits.items():
            if name not in STANDARD_CONTAINER_RESOURCES or amount[0] == "-":
                return False
    for name, amount in resources.get("requests", _EMPTY).items():
        if name not in STANDARD_CONTAINER_RESOURCES or amount[0] == "-":
            return False
        if limits:
            limit = limits.get(name, amount)
            if amount != limit and nanos(amount) > nanos(limit):
                return False
    return True


def _are_plain_mounts(mounts: list[Object], volumes: Volumes) -> bool:
    for mount in mounts:
        if not mount["mountPath"] or mount["name"] not in volumes:
            return False
        if len(mount) > 2 and (len(mount) > 3 or "readOnly" not in mount):
            return False
    return len(mounts) == 1 or len({mount["mountPath"] for mount in mounts}) == len(mounts)


def _is_plain_context(context: Object) -> bool:
    if not context.keys() <= _PLAIN_CONTEXT_FIELDS:
        return False
    if context.get("allowPrivilegeEscalation") is not False:
        return True
    return not context.get("privileged") and "add" not in context.get("capabilities", ())


def _is_plain_probe(probe: Object) -> bool:
    if "terminationGracePeriodSeconds" in probe or probe.get("successThreshold") != 1:
        return False
    for part in _PLAIN_TIMINGS:
        if probe.get(part, 0) < 0:
            return False
    if "httpGet" in probe:
        action = probe["httpGet"]
        if "httpHeaders" in action or action.get("scheme") not in ("HTTP", "HTTPS") or not action.get("path"):
            return False
    elif "exec" in probe:
        return bool(probe["exec"].get("command")) and not _has_several_handlers(probe)
    else:
        action = probe.get("tcpSocket") or probe.get("grpc")
        if not action:
            return False
    port: Any = action["port"]
    return type(port) is int and 1 <= port <= 65535 and not _has_several_handlers(probe)


def _has_several_handlers(probe: Object) -> bool:
    """Whether more than one handler is set."""
    return ("exec" in probe) + ("httpGet" in probe) + ("tcpSocket" in probe) + ("grpc" in probe) > 1


_LONGEST_NAME: Final = 255
_LONGEST_REFERENCE: Final = 640  # a name, a tag of 128 characters and a digest of 135
_DEFAULT_REGISTRY: Final = "docker.io"  # the registry of images that name none

_DOMAIN_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*(?::[0-9]+)?"
_PATH_SEGMENT: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = "(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
_REFERENCE: Final = rf"({_DOMAIN}(?:/{_PATH_SEGMENT})+)(?::({_TAG}))?(?:@({_DIGEST}))?"
_IDENTIFIER: Final = "[a-f0-9]{64}"


def is_latest(image: str) -> bool:
    """Whether the tag is `latest`, explicitly or by default. A text longer than any reference is not."""
    return len(image) <= _LONGEST_REFERENCE and _is_latest(image)


@lru_cache(maxsize=1024)  # all pods of a workload have the same images
def _is_latest(image: str) -> bool:
    if re.fullmatch(_IDENTIFIER, image):
        return False
    found = re.fullmatch(_REFERENCE, _with_registry(image))
    if found is None or len(found[1]) > _LONGEST_NAME:
        return False
    return found[2] == "latest" if found[2] or found[3] else True


def _with_registry(image: str) -> str:
    """Return the image with the default registry if it names none."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"{_DEFAULT_REGISTRY}/{image}" if slash else f"{_DEFAULT_REGISTRY}/library/{image}"
