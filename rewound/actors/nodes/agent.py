"""The agent of a simulated node: it serves logs, and commands in containers.

No program runs in a simulated container: its log and the output of commands are annotations of the pod. These functions
read only stored objects, so that any process of a server can respond.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.values.times import micros_of, seconds_text
from rewound.actors.messages import Object
from rewound.actors.nodes.behaviour import PREFIX

STATUS_LISTS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
CANNOT_EXECUTE: Final = 126  # the exit code of shells for a command that cannot be run


class CommandResult(NamedTuple):
    """The output of a command, and how it ended."""

    output: str = ""
    errors: str = ""
    exit_code: int = 0


def log_of(pod: Object, container: str, options: Object, now: int) -> bytes:
    """The log of a container, by PodLogOptions. Raises BadRequest if it has not started."""
    begun = _started(pod, container, previous=bool(options.get("previous")))
    lines = _annotated(pod, "log", container, _default_log(pod, container)).splitlines()
    since = options.get("sinceTime")
    seconds = options.get("sinceSeconds")
    earliest = micros_of(since) if since else now - seconds * 1_000_000 if seconds else None
    if earliest is not None and micros_of(begun) < earliest:
        lines = []  # all lines have the start time of the container
    if (tail := options.get("tailLines")) is not None:
        lines = lines[len(lines) - min(tail, len(lines)) :]
    if options.get("timestamps"):
        lines = [f"{begun} {line}" for line in lines]
    text = "".join(f"{line}\n" for line in lines).encode()
    limit = options.get("limitBytes")
    return text if limit is None else text[:limit]


def running_since(pod: Object, container: str) -> str:
    """When a container that runs now started; "" if it does not run."""
    for kind in STATUS_LISTS:
        for one in (pod.get("status") or {}).get(kind) or ():
            if one["name"] == container:
                text: str = ((one.get("state") or {}).get("running") or {}).get("startedAt", "")
                return text
    return ""


def run_command(pod: Object, container: str) -> CommandResult:
    """The output of a command in a container: an annotation, or that nothing runs there. Raises BadRequest."""
    _started(pod, container)
    output = _annotated(pod, "exec", container, "")
    code = _annotated(pod, "exec-exit-code", container, "")
    exit_code = int(code) if code.isascii() and code.isdigit() and int(code) < 256 else None
    if output or exit_code is not None:
        return CommandResult(output and f"{output.rstrip()}\n", "", exit_code or 0)
    name = pod["metadata"]["name"]
    message = (
        f"container {container} of pod {name} is simulated: no program runs in it; "
        f"set the annotation {PREFIX}exec of the pod to what commands are to print\n"
    )
    return CommandResult("", message, CANNOT_EXECUTE)


def _annotated(pod: Object, name: str, container: str, default: str) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    found: str = annotations.get(f"{PREFIX}{name}.{container}", annotations.get(f"{PREFIX}{name}", default))
    return found


def _default_log(pod: Object, container: str) -> str:
    metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
    where = f"{metadata['namespace']}/{metadata['name']}"
    return (
        f"container {container} of pod {where} is simulated on {node}: the annotation {PREFIX}log is its log"
    )


def _started(pod: Object, container: str, *, previous: bool = False) -> str:
    """When a container, or its previous run, started. Raises BadRequest if it has not."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    known = (one for kind in STATUS_LISTS for one in status.get(kind) or () if one["name"] == container)
    found = next(known, None) or {"state": {"waiting": {"reason": "ContainerCreating"}}}
    last = (found.get("lastState") or {}).get("terminated")
    if previous:
        if last is None:
            raise BadRequest(
                f"previous terminated container {quoted(container)} in pod {quoted(name)} not found"
            )
        return _start_of(last, status)
    state = found.get("state") or {}
    for kind in ("running", "terminated"):
        if kind in state:
            return _start_of(state[kind], status)
    if last is not None:
        return _start_of(last, status)
    reason = state.get("waiting", {}).get("reason", "ContainerCreating")
    raise BadRequest(f"container {quoted(container)} in pod {quoted(name)} is waiting to start: {reason}")


def _start_of(state: Object, status: Object) -> str:
    text: str = state.get("startedAt") or status.get("startTime") or seconds_text(0)
    return text
