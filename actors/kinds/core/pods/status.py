"""The status of pods: phase, addresses, and the state of each container.

The address is in `podIP` and, as the first of the list, in `podIPs`; the old field takes precedence.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from actors.kinds.schema.fields import BOOL, INT32, STRING, TIME, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldErrors,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_address,
    parse_ip,
    qualified_name,
    undecided,
)
from actors.messages import Object

POD_CONDITION = Struct(
    "core.v1.PodCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("lastProbeTime", TIME, 3),
    Field("lastTransitionTime", TIME, 4),
    Field("reason", STRING, 5),
    Field("message", STRING, 6),
)
POD_IP = Struct(
    "core.v1.PodIP",
    Field("ip", STRING, 1),
)
CONTAINER_STATE_WAITING = Struct(
    "core.v1.ContainerStateWaiting",
    Field("reason", STRING, 1),
    Field("message", STRING, 2),
)
CONTAINER_STATE_RUNNING = Struct(
    "core.v1.ContainerStateRunning",
    Field("startedAt", TIME, 1),
)
CONTAINER_STATE_TERMINATED = Struct(
    "core.v1.ContainerStateTerminated",
    Field("exitCode", INT32, 1, required=True, always=True),
    Field("signal", INT32, 2),
    Field("reason", STRING, 3),
    Field("message", STRING, 4),
    Field("startedAt", TIME, 5),
    Field("finishedAt", TIME, 6),
    Field("containerID", STRING, 7),
)
CONTAINER_STATE = Struct(
    "core.v1.ContainerState",
    Field("waiting", CONTAINER_STATE_WAITING, 1, pointer=True),
    Field("running", CONTAINER_STATE_RUNNING, 2, pointer=True),
    Field("terminated", CONTAINER_STATE_TERMINATED, 3, pointer=True),
)
CONTAINER_STATUS = Struct(
    "core.v1.ContainerStatus",
    Field("name", STRING, 1, required=True, always=True),
    Field("state", CONTAINER_STATE, 2),
    Field("lastState", CONTAINER_STATE, 3),
    Field("ready", BOOL, 4, required=True, always=True),
    Field("restartCount", INT32, 5, required=True, always=True),
    Field("image", STRING, 6, required=True, always=True),
    Field("imageID", STRING, 7, required=True, always=True),
    Field("containerID", STRING, 8),
    Field("started", BOOL, 9, pointer=True),
)
POD_STATUS = Struct(
    "core.v1.PodStatus",
    Field("phase", STRING, 1, enum=("Failed", "Pending", "Running", "Succeeded", "Unknown")),
    Field("conditions", ListOf(POD_CONDITION), 2, patch="merge", merge_key="type"),
    Field("message", STRING, 3),
    Field("reason", STRING, 4),
    Field("nominatedNodeName", STRING, 11),
    Field("hostIP", STRING, 5),
    Field("podIP", STRING, 6),
    Field("podIPs", ListOf(POD_IP), 12, patch="merge", merge_key="ip"),
    Field("startTime", TIME, 7, pointer=True),
    Field("initContainerStatuses", ListOf(CONTAINER_STATUS), 10),
    Field("containerStatuses", ListOf(CONTAINER_STATUS), 8),
    Field("qosClass", STRING, 9, enum=("BestEffort", "Burstable", "Guaranteed")),
    Field("ephemeralContainerStatuses", ListOf(CONTAINER_STATUS), 13),
)

_OWN_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))


def set_status_defaults(pod: Object) -> None:
    status = pod["status"]
    first, addresses = status.get("podIP", ""), status.get("podIPs", [])
    if first and (not addresses or addresses[0].get("ip", "") != first):
        addresses = [{"ip": first}]
    if addresses and addresses[0].get("ip", "") != first:
        first = addresses[0].get("ip", "")
    if addresses:
        pod["status"] = POD_STATUS.arranged({**status, "podIP": first, "podIPs": addresses})


def status_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    status, before = new["status"], old["status"]
    _condition_rules(errors, status.get("conditions", ()))
    if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
        errors.add(forbidden("status.nodeName", "may not be changed directly"))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors.add_each("status.nominatedNodeName", nominated, dns_subdomain(nominated))
    restart = old["spec"].get("restartPolicy", "")
    for part, policy in (
        ("containerStatuses", restart),
        ("initContainerStatuses", restart),
        ("ephemeralContainerStatuses", "Never"),
    ):
        _termination_rules(errors, status.get(part, ()), before.get(part, ()), policy, f"status.{part}")
    _address_rules(errors, status.get("podIPs", []))


def _condition_rules(errors: FieldErrors, conditions: list[Object]) -> None:
    for index, condition in enumerate(conditions):
        kind = condition["type"]
        if kind not in _OWN_CONDITIONS:
            errors.add_each(f"metadata.conditions[{index}].Type", kind, qualified_name(kind))


def _termination_rules(
    errors: FieldErrors, new: list[Object], old: list[Object], policy: str, field: str
) -> None:
    """A terminated container that is not to be restarted stays terminated."""
    if policy == "Always":
        return
    running = Counter(after["name"] for after in new if "terminated" not in after["state"])
    text = "may not be transitioned to non-terminated state"
    for index, before in enumerate(old):
        ended = before["state"].get("terminated")
        if ended is None or (ended["exitCode"] and policy == "OnFailure"):
            continue
        for _ in range(running[before["name"]]):
            errors.add(forbidden(f"{field}[{index}].state", text))


def _address_rules(errors: FieldErrors, addresses: list[Object]) -> None:
    field, texts = "status.podIPs", [one.get("ip", "") for one in addresses]
    for index, text in enumerate(texts):
        errors.add_each(f"{field}[{index}]", text, ip_address(text))
    if len(texts) < 2:
        return
    families = {None if address is None else address.version for address in map(parse_ip, texts)}
    if None in families:
        errors.add(undecided(field, "failed to check for dual stack with error:ip <nil> is invalid"))
    if families != {4, 6} or len(texts) > 2:
        errors.add(invalid(field, addresses, "may specify no more than one IP for each IP family"))
    seen: set[str] = set()
    for index, text in enumerate(texts):
        if text in seen:
            errors.add(duplicate(f"{field}[{index}]", addresses[index]))
        seen.add(text)
