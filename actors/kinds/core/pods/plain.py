"""A fast check that accepts plain containers: those with common fields only, all of them valid.

It repeats the rules of containers for speed alone: it reads the common fields only and builds no paths and no error
texts. True means that the full rules would find no error; False means that the full rules have to run. A test checks
that the two agree.
"""

from __future__ import annotations

from typing import Any, Final

from actors.kinds.core.pods.ports import PROTOCOLS
from actors.kinds.core.pods.projections import IN_VARIABLES
from actors.kinds.core.pods.volumes import Volumes
from actors.kinds.core.resources import STANDARD_CONTAINER_RESOURCES, nanos
from actors.kinds.validation import is_config_key, is_label, is_port_name, is_subdomain, is_variable
from actors.messages import Object

_PULL_POLICIES: Final = frozenset(("Always", "IfNotPresent", "Never"))
_PROTOCOLS: Final = frozenset(PROTOCOLS)
_IN_VARIABLES: Final = frozenset(IN_VARIABLES)
_TIMINGS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
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
        or container.get("imagePullPolicy") not in _PULL_POLICIES
    ):
        return False
    if not container.keys() <= _PLAIN_FIELDS:
        return False
    return (
        ("ports" not in container or _ports(container["ports"]))
        and ("env" not in container or _variables(container["env"]))
        and (not container["resources"] or _resources(container["resources"]))
        and ("volumeMounts" not in container or _mounts(container["volumeMounts"], volumes))
        and ("securityContext" not in container or _context(container["securityContext"]))
        and ("livenessProbe" not in container or _probe(container["livenessProbe"]))
        and ("readinessProbe" not in container or _probe(container["readinessProbe"]))
        and ("startupProbe" not in container or _probe(container["startupProbe"]))
    )


def _ports(ports: list[Object]) -> bool:
    names: set[str] = set()
    for port in ports:
        if not 1 <= port["containerPort"] <= 65535 or port.get("protocol") not in _PROTOCOLS:
            return False
        if len(port) > 2:
            name = port.get("name")
            if len(port) > 3 or name is None or name in names or not is_port_name(name):
                return False
            names.add(name)
    return True


def _variables(variables: list[Object]) -> bool:
    for variable in variables:
        name = variable["name"]
        if not is_variable(name) or name[0] == ".":
            return False
        if "valueFrom" in variable and (len(variable) > 2 or not _source(variable["valueFrom"])):
            return False
    return True


def _source(source: Object) -> bool:
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


def _resources(resources: Object) -> bool:
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


def _mounts(mounts: list[Object], volumes: Volumes) -> bool:
    for mount in mounts:
        if not mount["mountPath"] or mount["name"] not in volumes:
            return False
        if len(mount) > 2 and (len(mount) > 3 or "readOnly" not in mount):
            return False
    return len(mounts) == 1 or len({mount["mountPath"] for mount in mounts}) == len(mounts)


def _context(context: Object) -> bool:
    if not context.keys() <= _PLAIN_CONTEXT_FIELDS:
        return False
    if context.get("allowPrivilegeEscalation") is not False:
        return True
    return not context.get("privileged") and "add" not in context.get("capabilities", ())


def _probe(probe: Object) -> bool:
    if "terminationGracePeriodSeconds" in probe or probe.get("successThreshold") != 1:
        return False
    for part in _TIMINGS:
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
