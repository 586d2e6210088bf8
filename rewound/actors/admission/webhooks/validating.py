"""ValidatingAdmissionWebhook: asks all matching webhooks at the same time; any refusal refuses the write."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Final

import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CONNECT, CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.admission.timings import WebhookTimings
from rewound.actors.admission.webhooks.caller import WebhookCaller
from rewound.actors.admission.webhooks.candidates import Match
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.matching import ConditionsMet, Configurations
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import RequestError
from rewound.actors.names import Names

ADMITTED: Final = Admitted()


class ValidatingAdmissionWebhook(AsyncPlugin):
    name = "ValidatingAdmissionWebhook"
    validates = (rule(CREATE, UPDATE, DELETE, CONNECT, subresources=None),)
    runs = True
    calls_webhooks = True

    def __init__(
        self,
        names: Names,
        configurations: Configurations,
        clients: WebhookClients,
        timings: WebhookTimings,
        converter: Converter,
        conditions_met: ConditionsMet,
    ) -> None:
        self._conditions_met = conditions_met
        self._configurations = configurations
        configurations.set_plugin(self)
        self._clients = clients
        self.timings = timings
        self._caller = WebhookCaller(names, clients, timings, "validating", converter)

    async def run(self) -> None:
        await self._clients.run()

    def concerns(self, request: AdmissionRequest) -> bool:
        return bool(self._configurations.matching(request))

    def may_concern(self, request: AdmissionRequest) -> bool:
        return self._configurations.may_match(request)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        """The refusal of the first in the list of all webhooks counts, whichever responded first."""
        found = await self._called(request)
        if not found:
            return ADMITTED
        if len(found) == 1:
            began = perf_counter()
            verdict, _ = await self._caller.ask(found[0], request, 0)
            if verdict is None:
                return ADMITTED
            self._caller.passed(found[0].hook, request, began)
            return Admitted(None, verdict.warnings) if verdict.warnings else ADMITTED
        outcomes: list[tuple[str, ...] | RequestError] = [()] * len(found)

        async def ask(index: int, match: Match) -> None:
            try:
                outcomes[index] = await self._ask(match, request, index)
            except RequestError as error:
                outcomes[index] = error

        async with trio.open_nursery() as nursery:
            for index, match in enumerate(found):
                nursery.start_soon(ask, index, match)
        refusals = [one for one in outcomes if isinstance(one, RequestError)]
        warnings = tuple(
            text for one in outcomes for text in (one.warnings if isinstance(one, RequestError) else one)
        )
        if refusals:
            refusals[0].warnings = warnings
            raise refusals[0]
        return Admitted(None, warnings)

    async def _called(self, request: AdmissionRequest) -> Sequence[Match]:
        """The webhooks to call: all conditions are evaluated before the first call."""
        found = self._configurations.matching(request)
        if all(match.hook.conditions is None for match in found):
            return found
        return [match for match in found if await self._conditions_met(match, request)]

    async def _ask(self, match: Match, request: AdmissionRequest, index: int) -> tuple[str, ...]:
        """The warnings of a webhook that allows the write; RequestError if it does not."""
        began = perf_counter()
        verdict, _ = await self._caller.ask(match, request, index)
        if verdict is None:
            return ()
        self._caller.passed(match.hook, request, began)
        return verdict.warnings
