"""Containers of a pod: main, init and ephemeral containers.

All three share most of their fields and rules. Init containers run one after the other and have no probes;
ephemeral containers have no ports, resources, probes or lifecycle hooks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from actors.kinds.core.pods.env import ENV_FROM_SOURCE, ENV_VAR, env_from_rules, variable_rules
from actors.kinds.core.pods.images import is_latest
from actors.kinds.core.pods.mounts import VOLUME_DEVICE, VOLUME_MOUNT, mount_rules
from actors.kinds.core.pods.plain import is_plain
from actors.kinds.core.pods.ports import CONTAINER_PORT, host_port_rules, port_rules
from actors.kinds.core.pods.probes import LIFECYCLE, PROBE, container_probe_rules
from actors.kinds.core.pods.security import SECURITY_CONTEXT, context_rules
from actors.kinds.core.pods.volumes import Volumes
from actors.kinds.core.resources import RESOURCE_REQUIREMENTS, requirement_rules, round_up
from actors.kinds.schema.fields import BOOL, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_label,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from actors.messages import Object

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
NOT_FOR_INIT_CONTAINERS: Final = "may not be set for init containers"
NOT_FOR_EPHEMERAL_CONTAINERS: Final = "cannot be set for an Ephemeral Container"
SURROUNDED_BY_WHITESPACE: Final = "must not have leading or trailing whitespace"

CONTAINER = Struct(
    "core.v1.Container",
    Field("name", STRING, 1, required=True, always=True),
    Field("image", STRING, 2),
    Field("command", STRINGS, 3),
    Field("args", STRINGS, 4),
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
    Field("envFrom", ListOf(ENV_FROM_SOURCE), 19),
    Field("env", ListOf(ENV_VAR), 7, patch="merge", merge_key="name"),
    Field("resources", RESOURCE_REQUIREMENTS, 8),
    Field("volumeMounts", ListOf(VOLUME_MOUNT), 9, patch="merge", merge_key="mountPath"),
    Field("volumeDevices", ListOf(VOLUME_DEVICE), 21, patch="merge", merge_key="devicePath"),
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
)


def set_container_defaults(containers: list[Object]) -> None:
    for container in containers:
        if "imagePullPolicy" not in container:
            policy = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"
            container["imagePullPolicy"] = policy
            for later in _AFTER_POLICY:
                if later in container:
                    container[later] = container.pop(later)
        if container["resources"]:
            for amounts in container["resources"].values():
                round_up(amounts)


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


@dataclass(frozen=True, slots=True)
class ContainerRules:
    """Rules for the containers of one pod."""

    volumes: Volumes
    api_domain: str  # see core/resources
    indivisible_huge_pages: bool

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
                container_probe_rules(errors, container, f"{field}[{index}]")
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
            if name in names:
                errors.add(duplicate(f"{here}.name", name))
            elif name:
                names.add(name)
            host_port_rules(errors, [container], field)
            for part in _PROBES:
                if part in container:
                    errors.add(forbidden(f"{here}.{part}", NOT_FOR_INIT_CONTAINERS))

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
        if "securityContext" in container:
            context_rules(errors, container["securityContext"], f"{field}.securityContext")


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
