"""Runs admission for what is never stored, such as a TokenRequest: outside the actors, one step after the other."""

from __future__ import annotations

from collections.abc import Callable

from actors.admission.chain import Chain
from actors.admission.plugin import AsyncPlugin
from actors.admission.request import AdmissionRequest


async def admit(chain: Chain, request: AdmissionRequest) -> None:
    """Run the mutating steps; `request.object` is their result. Raises what a plugin refuses with."""
    await _run(chain.admit, chain.changes, request)


async def validate(chain: Chain, request: AdmissionRequest) -> None:
    await _run(chain.validate, chain.checks, request)


async def _run(
    run: Callable[[AdmissionRequest, int], int | None], steps: tuple[object, ...], request: AdmissionRequest
) -> None:
    following = run(request, 0)
    while following is not None:
        plugin = steps[following]
        assert isinstance(plugin, AsyncPlugin)
        admitted = await plugin.admit(request)
        request.warnings.extend(admitted.warnings)
        if admitted.reinvocation is not None:
            request.reinvocation = admitted.reinvocation
        if admitted.object is not None:
            request.object = admitted.object
        following = run(request, following + 1)
