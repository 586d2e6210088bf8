"""Runs admission for what is never stored, such as a TokenRequest: outside the actors, one step after the other."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import perf_counter

import trio

from actors.admission.chain import Chain, Step, record_refusal
from actors.admission.plugin import Admitted, AsyncPlugin
from actors.admission.request import CONNECT, AdmissionRequest
from actors.admission.timings import StepTiming
from actors.errors import WriteTimedOut
from actors.messages import LONGEST_WRITE


async def admit(chain: Chain, request: AdmissionRequest) -> None:
    """Run the mutating steps; `request.object` is their result. Raises what a plugin refuses with."""
    await _run(chain.admit, chain.changes, chain.admit_timing, request)


async def validate(chain: Chain, request: AdmissionRequest) -> None:
    await _run(chain.validate, chain.checks, chain.validate_timing, request)


async def _run(
    run: Callable[[AdmissionRequest, int], int | None],
    steps: tuple[Step, ...],
    phase: StepTiming,
    request: AdmissionRequest,
) -> None:
    following = run(request, 0)
    while following is not None:
        _, _, plugin, timing = steps[following]
        assert plugin is not None
        began = perf_counter()
        try:
            admitted = await _within_time(request, plugin)
        except Exception:
            record_refusal(request, began, timing, phase)
            raise
        timing.passed.add(perf_counter() - began)
        request.warnings += admitted.warnings
        if admitted.reinvocation is not None:
            request.reinvocation = admitted.reinvocation
        if admitted.object is not None:
            request.object = admitted.object
        following = run(request, following + 1)


async def _within_time(request: AdmissionRequest, plugin: AsyncPlugin) -> Admitted:
    """WriteTimedOut if the time of the request is over before. A connect lasts as long as its client wants."""
    context = request.context
    if request.operation == CONNECT or context is None:
        return await plugin.admit(request)
    if request.deadline == inf:
        request.deadline = min(context.deadline, trio.current_time() + LONGEST_WRITE)
    with trio.CancelScope(deadline=request.deadline):
        return await plugin.admit(request)
    raise WriteTimedOut(requested=request.deadline == context.deadline)
