"""The fault rules of a running server: from `--faults` at the start, or set by tests below /debug/rewound/faults.

GET     the rules, and how many requests each matched and was applied to
POST    replaces all rules; every count starts anew
DELETE  removes them
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rewound.actors.errors import BadRequest
from rewound.gateway.faults.injection import Applied, FaultInjection
from rewound.gateway.faults.older_versions import OlderVersions
from rewound.gateway.faults.parsing import FaultsError, parse_faults, read_faults
from rewound.gateway.faults.rules import Faults
from rewound.gateway.message import Response
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.rewind.past_reads import PastReads
from rewound.gateway.settings.checks import SettingsError

PATH = "faults"
MAX_BYTES = 64 << 10  # of rules: YAML is parsed in the event loop

Install = Callable[[FaultInjection | None], None]
AddControl = Callable[[str, str, Callable[..., Awaitable[Response]]], None]  # method, path, handler


class FaultSwitch:
    def __init__(self, install: Install, reads: PastReads, older: OlderVersions, metrics: Metrics) -> None:
        """`install` puts an injection into the pipeline, or removes it with None."""
        self._install = install
        self._reads = reads
        self._older = older
        self._applied: Applied = {}
        self._faults: Faults | None = None
        metrics.counter(
            "rewound_faults_injected_total",
            "Faults that were injected by fault rules.",
            lambda: self._applied,
            "rule",
            "fault",
        )

    def set(self, faults: Faults | None) -> None:
        """Replace all rules, from the next request on."""
        self._faults = faults if faults is not None and faults.rules else None
        if self._faults is None:
            self._install(None)
        else:
            self._install(FaultInjection(self._faults, self._reads, self._older, self._applied))

    def set_from_file(self, path: Path) -> None:
        """SettingsError."""
        try:
            self.set(read_faults(path))
        except FaultsError as error:
            raise SettingsError("--faults", f"{path}: {error}") from None

    def add_controls(self, add: AddControl) -> None:
        add("GET", PATH, self._get)
        add("POST", PATH, self._post)
        add("DELETE", PATH, self._delete)

    async def _get(self, context: RequestContext) -> Response:
        return await render.document(context, self._document())

    async def _post(self, context: RequestContext) -> Response:
        if len(context.request.body) > MAX_BYTES:
            raise BadRequest(f"fault rules: more than {MAX_BYTES >> 10} KiB")
        try:
            self.set(parse_faults(context.request.body))
        except FaultsError as error:
            raise BadRequest(f"fault rules: {error}") from None
        return await render.document(context, self._document())

    async def _delete(self, context: RequestContext) -> Response:
        self.set(None)
        return await render.document(context, self._document())

    def _document(self) -> dict[str, Any]:
        faults = self._faults
        if faults is None:
            return {"seed": 0, "rules": []}
        return {
            "seed": faults.seed,
            "rules": [
                {**given, "name": rule.name, "matched": counts.matched, "applied": counts.applied}
                for given, rule, counts in zip(faults.documents, faults.rules, faults.counts, strict=True)
            ],
        }
