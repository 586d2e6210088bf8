"""`rewound.explore`: many runs of controllers, with faults that Hypothesis chooses, and the shortest that fails.

Every run has a server of its own, so its journal depends only on its seed and its faults. The first run has no faults;
the others must end with the same objects.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from rewound.testing.explore.chosen import Chosen
from rewound.testing.explore.end_state import End, differences, end_state
from rewound.testing.explore.faults import (
    KINDS,
    Fault,
    check_kinds,
    fault_lists,
    parse_faults,
    with_one_fewer,
)
from rewound.testing.explore.invariants import Checker, Compiled, Invariant, compiled
from rewound.testing.explore.parties import LIBRARIES, TRIO, Api, Party, Stuck
from rewound.testing.explore.run import Failed, Run, Step
from rewound.testing.explore.still_server import StillClock, Template
from rewound.testing.fixture.reporting import report, saved_lines
from rewound.testing.fixture.running import Report, flags_of_version
from rewound.testing.fixture.templates import scratch_folder

Controller = Callable[..., Any]
Normalize = Callable[[dict[str, Any]], dict[str, Any] | None]

_MISSING: Final = "rewound.explore needs Hypothesis: pip install hypothesis"
_NO_PLUGINS: Final = (
    "rewound.explore needs the plugin that trio has for Hypothesis: unset HYPOTHESIS_NO_PLUGINS"
)
_IN_TRIO: Final = (
    "rewound.explore runs an event loop of its own: call it in a thread, "
    "for example await trio.to_thread.run_sync(explore, ...)"
)
_UNREPEATABLE: Final = (
    "the same faults did not fail a second time, so the controllers depend on more than what they read: "
    "on the real time, on threads, or on random numbers that are not of the module random"
)
_SHOWN_DIFFERENCES: Final = 10
_MOST_TRIES: Final = 100  # runs to find one with fewer faults


class ExplorationFailed(AssertionError):
    """A run failed; the text has its steps. `steps`, `faults`, `journal` and `reason` are also attributes."""

    def __init__(self, text: str, outcome: Outcome, journal: Path) -> None:
        super().__init__(text)
        self.steps = [str(step) for step in outcome.steps]
        self.faults = " ".join(map(str, outcome.faults))
        self.reason = str(outcome.failure)
        self.journal = journal


class NotRepeatable(Exception):
    """The controllers behave differently though they read the same."""


@dataclass(frozen=True, slots=True)
class Explored:
    """Statistics of the runs."""

    runs: int
    operations: int  # requests and events of all runs
    faults: int
    seconds: float
    steps: list[str]  # of the newest run, as text


@dataclass(slots=True)
class Outcome:
    """How one run ended."""

    faults: Sequence[Fault]
    steps: list[Step]
    operations: int
    failure: Exception | None
    start: int  # the version before it
    end: End | None  # unless it failed


def explore(
    controllers: Mapping[str, Controller] | Sequence[Controller] | Controller,
    scenario: Callable[[Api], Any] | None = None,
    *,
    invariants: Sequence[Invariant | Controller | str] = (),
    seed: int = 0,
    runs: int = 100,
    steps: int = 10,
    faults: Collection[str] = tuple(KINDS),
    same_end: bool | Normalize = True,
    most: int = 1000,
    may_raise: tuple[type[Exception], ...] = (httpx.HTTPError,),
    async_library: str = TRIO,
    dialect: str = "kubernetes",
    kubernetes: str | None = None,
    flags: Sequence[str] = (),
    keep: str | os.PathLike[str] | None = None,
    repeat: str | None = None,
) -> Explored:
    """Run controllers many times, each time with other faults, and check every version of every object.

    `controllers` are functions that get a client, by name; `scenario` is what the test does beside them.
    `kubernetes` is the version of the servers, such as "1.33". The error ExplorationFailed has the shortest run that
    fails. See docs/explore.md.
    """
    _require_hypothesis()
    check_kinds(faults)
    if async_library not in LIBRARIES:
        raise ValueError(f"async_library: {async_library!r} is none; there are {' and '.join(LIBRARIES)}")
    given = None if repeat is None else parse_faults(repeat)
    explorer = Explorer(
        parties=_named(controllers, scenario),
        invariants=compiled(invariants, dialect),
        seed=seed,
        same_end=same_end,
        most=most,
        may_raise=may_raise,
        async_library=async_library,
        template=_template(dialect, (*flags_of_version(kubernetes), *flags)),
    )
    try:
        began = time.perf_counter()
        failed = explorer.explore(runs, steps, faults) if given is None else explorer.try_one(given)
        if failed is not None:
            raise explorer.failure(failed, Path(keep) if keep is not None else None)
        seconds = time.perf_counter() - began
        return Explored(explorer.runs, explorer.operations, explorer.faults, seconds, explorer.newest_steps)
    finally:
        explorer.close()


class Explorer:
    """The runs of one call of `explore`."""

    def __init__(
        self,
        *,
        parties: Mapping[str, tuple[Controller, bool]],
        invariants: Sequence[Compiled],
        seed: int,
        same_end: bool | Normalize,
        most: int,
        may_raise: tuple[type[Exception], ...],
        async_library: str,
        template: Template,
    ) -> None:
        self._parties, self._invariants, self._seed = parties, invariants, seed
        self._same_end, self._most, self._may_raise = same_end, most, may_raise
        self._async_library, self._template = async_library, template
        self._folder = scratch_folder()
        self._expected: End | None = None  # the end of the run without faults
        self._failed: Outcome | None = None  # the newest run that failed; its folder still exists
        self.runs = self.operations = self.faults = 0
        self.newest_steps: list[str] = []

    def explore(self, runs: int, steps: int, kinds: Collection[str]) -> Outcome | None:
        """The shortest run that fails, if any does."""
        if (failed := self.try_one([])) is not None:
            return failed
        _with_hypothesis(
            self._check, fault_lists(kinds, steps, self.operations), seed=self._seed, runs=runs - 1
        )
        if self._failed is not None:
            self._leave_out(self._failed.faults)
        return self._failed

    def _leave_out(self, faults: Sequence[Fault]) -> None:
        """Try for a while to fail with fewer faults."""
        for number, fewer in enumerate(with_one_fewer(faults)):
            failed = self._failed
            if number == _MOST_TRIES or self.try_one(fewer) is not failed:
                break
        if self._failed is not None and len(self._failed.faults) < len(faults):
            self._leave_out(self._failed.faults)

    def try_one(self, faults: Sequence[Fault]) -> Outcome | None:
        """Run once with these faults; returns the outcome if it failed."""
        from hypothesis import strategies

        compares = bool(faults) and self._same_end is not False and self._expected is None
        if compares and self.try_one([]) is not None:
            return self._failed
        _with_hypothesis(self._check, strategies.just(list(faults)), seed=self._seed, runs=1)
        return self._failed

    def _check(self, faults: list[Fault]) -> None:
        """Run once with these faults. Raises _FoundFailure if it fails."""
        folder = self._folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        self._template.copy(folder)
        outcome = self.run(folder, faults)
        self.runs += 1
        self.operations += outcome.operations
        self.faults += len(faults)
        self.newest_steps = [str(step) for step in outcome.steps]
        if outcome.failure is None:
            self._compare(outcome)
        if outcome.failure is None:
            return
        self._failed = outcome
        kept = self._folder / "failed"
        shutil.rmtree(kept, ignore_errors=True)
        folder.rename(kept)
        raise _FoundFailure

    def _compare(self, outcome: Outcome) -> None:
        assert outcome.end is not None
        if self._expected is None:
            self._expected = outcome.end
        elif self._same_end is not False:
            found = differences(self._expected, outcome.end)
            if found:
                more = len(found) - _SHOWN_DIFFERENCES
                lines = [*found[:_SHOWN_DIFFERENCES], *([f"and {more} more"] if more > 0 else [])]
                outcome.failure = Failed("it ends otherwise than without faults:\n  " + "\n  ".join(lines))

    def run(self, folder: Path, faults: Sequence[Fault]) -> Outcome:
        """Run once on this data folder."""
        clock = StillClock()
        return trio.run(self._run, folder, faults, clock, clock=clock.deadlines)

    async def _run(self, folder: Path, faults: Sequence[Fault], clock: StillClock) -> Outcome:
        parties = [
            Party(name, function, is_test=test, library=self._async_library)
            for name, (function, test) in self._parties.items()
        ]
        async with self._template.running(folder, self._seed, clock) as server:
            chosen = Chosen()
            checker = Checker(server.store, self._invariants, chosen.add)
            run = Run(server, parties, faults, checker, most=self._most, may_raise=self._may_raise)
            failure = await run.run()
        if isinstance(failure, Stuck):
            raise _Unexplorable(failure)
        normalize = self._same_end if callable(self._same_end) else None
        end = None if failure is not None else end_state(checker.state, chosen, normalize)
        return Outcome(faults, run.steps, run.count, failure, checker.start, end)

    def failure(self, outcome: Outcome, keep: Path | None) -> ExplorationFailed:
        """The error about a run that failed, with its journal in a file."""
        keep = Path(tempfile.mkdtemp(prefix="rewound-explore-")) if keep is None else keep
        keep.mkdir(parents=True, exist_ok=True)
        journal = _unused(keep)
        report(self._folder / "failed", Report(outcome.start, 0, str(journal)))
        faults = " ".join(map(str, outcome.faults))
        count = len(outcome.faults)
        some = "1 fault" if count == 1 else f"{count or 'no'} faults"
        lines = [
            f"a run with {some} fails ({self.runs} were tried, seed {self._seed}):",
            *(f"step {number}: {step}" for number, step in enumerate(outcome.steps, 1)),
            str(outcome.failure),
            "",
            *saved_lines(journal),
            f"repeat it with seed={self._seed}, or alone with repeat={faults!r}",
        ]
        return ExplorationFailed("\n".join(lines), outcome, journal)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _FoundFailure(Exception):
    """For Hypothesis: the run failed."""


class _Unexplorable(BaseException):
    """For Hypothesis: give up, no other run would say more."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason


def _require_hypothesis() -> None:
    try:
        import hypothesis  # noqa: F401
    except ImportError as error:
        raise ImportError(_MISSING) from error
    if os.environ.get("HYPOTHESIS_NO_PLUGINS"):
        raise RuntimeError(_NO_PLUGINS)
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(_IN_TRIO)


def _with_hypothesis(check: Callable[..., None], strategy: Any, *, seed: int, runs: int) -> None:
    """Call `check` with examples of a strategy until it fails, and then with ever simpler ones that fail.

    Hypothesis gives the same seed to random and to trio before each call. Raises NotRepeatable or Stuck.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis import seed as seeded
    from hypothesis.errors import Flaky

    configured = settings(
        max_examples=max(runs, 1),
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        print_blob=False,
    )

    def test(example: Any) -> None:
        check(example)

    examples: Any = given(strategy)
    try:
        seeded(seed)(configured(examples(test)))()
    except _FoundFailure:
        pass
    except _Unexplorable as error:
        raise error.reason from None
    except Flaky as error:
        raise NotRepeatable(_UNREPEATABLE) from error


def _named(
    controllers: Mapping[str, Controller] | Sequence[Controller] | Controller,
    scenario: Callable[[Api], Any] | None,
) -> dict[str, tuple[Controller, bool]]:
    """The parties by name: their functions, and whether each is the scenario."""
    if callable(controllers):
        controllers = [controllers]
    if not isinstance(controllers, Mapping):
        names = [getattr(one, "__name__", "") for one in controllers]
        if len(set(names)) < len(names):
            raise ValueError("controllers: two have the same name; give them as {name: function}")
        controllers = dict(zip(names, controllers, strict=True))
    if not controllers:
        raise ValueError(
            "controllers: there is none; give a function, a list of functions or {name: function}"
        )
    own = {} if scenario is None else {"test": (scenario, True)}
    if own.keys() & controllers.keys():
        raise ValueError("controllers: test is the name of the scenario; choose another one")
    return {**own, **{name: (one, False) for name, one in controllers.items()}}


_templates: dict[tuple[str, tuple[str, ...]], Template] = {}


def _template(dialect: str, flags: tuple[str, ...]) -> Template:
    """The template for these flags, made once in each process. Raises SettingsError if they are wrong."""
    found = _templates.get((dialect, flags))
    if found is not None and found.folder.is_dir():
        return found
    from hypothesis import strategies

    root = scratch_folder()
    atexit.register(_remove, root, os.getpid())
    template = Template(root / "template", dialect, flags)
    _with_hypothesis(lambda _: template.make(), strategies.just(None), seed=0, runs=1)
    _templates[dialect, flags] = template
    return template


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _unused(folder: Path) -> Path:
    """The path of a new file in a folder."""
    number = 1
    while (path := folder / f"rewound-explore-{number}.journal").exists():
        number += 1
    return path
