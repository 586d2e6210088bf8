"""The behaviour that a pod's annotations request from its simulated node (docs/nodes.md lists them).

Without annotations a pod is Running and Ready at once. An annotation with an invalid value is ignored, and reported as
an Event of the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.names import Names

PREFIX: Final = "sim/"
PHASES: Final = ("Running", "NeverReady", "Hold", "Succeeded", "Failed", "CrashLoop", "ImagePull")
PROBES: Final = ("liveness", "readiness", "startup")
# Seconds that lifecycle hooks take, unless they sleep, or after which they fail.
HOOKS: Final = ("post-start-for", "fail-post-start", "pre-stop-for", "fail-pre-stop")
_LONGEST: Final = 10 * 365 * 86400.0  # seconds


class Script(NamedTuple):
    """What the program of one container does."""

    exit_after: float | None = None  # seconds that it runs
    exit_code: int = 0
    fails: Mapping[str, float] = {}  # seconds after its start when a probe begins to fail
    post_start_for: float = 0.0  # seconds that its postStart hook takes
    fail_post_start: float | None = None  # seconds after which that fails


class Behaviour(NamedTuple):
    phase: str = "Running"
    exit_code: int | None = None
    restarts: int | None = None
    start_after: float = 0.0  # seconds in ContainerCreating
    init_for: float = 0.0  # seconds that each init container runs
    init_exit_code: int = 0
    ready_after: float = 0.0  # seconds from the start of the pod
    run_for: float = 0.0  # seconds until the phases Succeeded and Failed
    exit_after: float | None = None  # seconds that a container runs; then restartPolicy decides
    terminate_after: float = 0.0  # seconds that the containers of a deleted pod take to stop
    resize_for: float = 0.0  # seconds from the allocation of other resources until a container has them
    hooks: Mapping[str, float] = {}  # by annotation
    reason: str = ""
    holds_termination: bool = False
    fails: Mapping[str, float] = {}
    of_containers: Mapping[tuple[str, str], Any] = {}  # by annotation and container
    problems: tuple[str, ...] = ()

    def script(self, container: str) -> Script:
        """Of a container that is no init container."""
        return self._with_own(container, Script(self.exit_after, self.exit_code or 0, self.fails))

    def init_script(self, container: str, number: int) -> Script:
        code = self.init_exit_code if number == 0 else 0
        return self._with_own(container, Script(self.init_for, code))

    def sidecar_script(self, container: str) -> Script:
        return self._with_own(container, Script(fails=self.fails))

    def _with_own(self, container: str, script: Script) -> Script:
        own = self.of_containers
        if self.hooks or own:
            post_start_for = self.seconds("post-start-for", container) or 0.0
            script = script._replace(
                post_start_for=post_start_for, fail_post_start=self.seconds("fail-post-start", container)
            )
        if not own:
            return script
        fails = {
            probe: seconds
            for probe in PROBES
            if (seconds := own.get((f"fail-{probe}", container), script.fails.get(probe))) is not None
        }
        return script._replace(
            exit_after=own.get(("exit-after", container), script.exit_after),
            exit_code=own.get(("exit-code", container), script.exit_code),
            fails=fails,
        )

    def seconds(self, name: str, container: str) -> float | None:
        """What an annotation about hooks or the end of containers says of one; None: nothing."""
        default = self.terminate_after if name == "terminate-after" else self.hooks.get(name)
        found: float | None = self.of_containers.get((name, container), default)
        return found


DEFAULT: Final = Behaviour()


def behaviour_of(pod: Object, names: Names) -> Behaviour:
    annotations = pod["metadata"].get("annotations")
    if not annotations or not any(key.startswith(PREFIX) for key in annotations):
        return DEFAULT
    problems: list[str] = []
    read = _Reader(annotations, problems)
    phase = read("phase", _phase, "Running")
    if (ordinal := ordinal_of(pod, names)) is not None:
        phase = read(f"phase.{ordinal}", _phase, phase)
    fails = {probe: read(f"fail-{probe}", _seconds, None) for probe in PROBES}
    hooks = {name: read(name, _seconds, None) for name in HOOKS}
    return Behaviour(
        phase=phase,
        exit_code=read("exit-code", _code, None),
        restarts=read("restarts", _count, None),
        start_after=read("start-after", _seconds, 0.0),
        init_for=read("init-for", _seconds, 0.0),
        init_exit_code=read("init-exit-code", _code, 0),
        ready_after=read("ready-after", _seconds, 0.0),
        run_for=read("run-for", _seconds, 0.0),
        exit_after=read("exit-after", _seconds, None),
        terminate_after=read("terminate-after", _seconds, 0.0),
        resize_for=read("resize-for", _seconds, 0.0),
        hooks={name: seconds for name, seconds in hooks.items() if seconds is not None},
        reason=annotations.get(PREFIX + "reason", ""),
        holds_termination=annotations.get(PREFIX + "hold-termination") == "true",
        fails={probe: seconds for probe, seconds in fails.items() if seconds is not None},
        of_containers=_of_containers(annotations, read),
        problems=tuple(problems),
    )


def _of_containers(annotations: Mapping[str, str], read: _Reader) -> dict[tuple[str, str], Any]:
    """The annotations that name a container: sim/exit-after.web."""
    parsers: dict[str, Callable[[str], Any]] = {"exit-after": _seconds, "exit-code": _code}
    parsers |= dict.fromkeys(("terminate-after", *HOOKS, *(f"fail-{probe}" for probe in PROBES)), _seconds)
    found = {}
    for key in annotations:
        name, dot, container = key.removeprefix(PREFIX).partition(".")
        if dot and key.startswith(PREFIX) and name in parsers:
            value = read(f"{name}.{container}", parsers[name], None)
            if value is not None:
                found[name, container] = value
    return found


def ordinal_of(pod: Object, names: Names) -> str | None:
    """The completion index of a Job's pod, or the ordinal of a StatefulSet's."""
    metadata = pod["metadata"]
    index: str | None = (metadata.get("annotations") or {}).get(names.key("job-completion-index", "batch"))
    if index is None and names.key("pod-name", "statefulset") in (metadata.get("labels") or {}):
        index = metadata["name"].rpartition("-")[2]
    return index


class _Reader:
    def __init__(self, annotations: Mapping[str, str], problems: list[str]) -> None:
        self._annotations = annotations
        self._problems = problems

    def __call__(self, name: str, parse: Callable[[str], Any], default: Any) -> Any:
        text = self._annotations.get(PREFIX + name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self._problems.append(f"{PREFIX}{name}: {text!r} {error}")
            return default


def _phase(text: str) -> str:
    if text not in PHASES:
        raise ValueError(f"is none of {', '.join(PHASES)}")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise ValueError("is no number of seconds, such as 2.5")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("is no whole number")
    return int(text)


def _code(text: str) -> int:
    code = _count(text)
    if code > 255:
        raise ValueError("is no exit code: they are 0 to 255")
    return code
