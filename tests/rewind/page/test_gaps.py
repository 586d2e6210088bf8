"""GET timeline/gaps: what a recording missed, for callers who may list the kinds; and warnings of `?at=` in a gap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rewound.actors.rewind.moments import rfc3339
from rewound.recording.record.gaps import EXPIRED, FILE, REFUSED, STOPPED, UNREACHABLE, Gaps
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.test_at import allow

GAPS = "/apis/rewound.cluster.io/v1/timeline/gaps"
SECOND = 1_000_000


async def gaps(api: Api, query: str = "", **more: Any) -> list[tuple[str, list[str], str]]:
    found = (await api.ask("GET", f"{GAPS}{query}", **more)).expect(200)
    return [(one["why"], one["kinds"], one["message"]) for one in found["items"]]


def write(folder: Path) -> None:
    made = Gaps(folder)
    made.add(EXPIRED, 10 * SECOND, 20 * SECOND, "configmaps", "too old", missing=True)
    made.begin(UNREACHABLE, 30 * SECOND, ["configmaps", "secrets"], "connection refused")
    made.end(UNREACHABLE, 40 * SECOND)
    made.begin(STOPPED, 50 * SECOND, message="the recorder did not run")
    made.end(STOPPED, 60 * SECOND)
    made.begin(REFUSED, 70 * SECOND, ["secrets", "widgets.example.com"], "forbidden")


async def test_by_range_and_by_what_the_caller_may_list() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
        await api.create("secrets", secret)
        assert await gaps(api) == []
        write(api.settings.data_dir)
        with (api.settings.data_dir / FILE).open("ab") as stream:
            stream.write(b'{"id": 9, "from": 1, "why\n[]\n')
        expired = (EXPIRED, ["configmaps"], "too old")
        stopped = (STOPPED, [], "the recorder did not run")
        refused = (REFUSED, ["secrets", "widgets.example.com"], "forbidden")
        lost = (UNREACHABLE, ["configmaps", "secrets"], "connection refused")
        assert await gaps(api) == [refused, stopped, lost, expired]
        assert await gaps(api, "?limit=1") == [refused]
        span = "?from=1970-01-01T00:00:{}Z&to=1970-01-01T00:00:{}Z"
        assert await gaps(api, span.format(20, 30)) == []  # ends are exclusive
        assert await gaps(api, span.format(15, 31)) == [lost, expired]
        assert await gaps(api, "?from=1970-01-01T01:00:00Z") == [refused]  # it lasts
        assert await gaps(api, "?type=configmaps") == [
            (REFUSED, ["widgets.example.com"], ""),
            stopped,
            (UNREACHABLE, ["configmaps"], ""),
            expired,
        ]
        # A caller who may list config maps only gets no other kind, and no text that may be about another one.
        assert await gaps(api, token=ALICE) == []
        await allow(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]})
        mine = [stopped, (UNREACHABLE, ["configmaps"], ""), expired]
        assert await gaps(api, "?namespace=default", token=ALICE) == mine
        assert await gaps(api, "?namespace=other", token=ALICE) == []
        assert (await api.ask("GET", f"{GAPS}?limit=0")).status == 400
        assert (await api.ask("POST", GAPS)).status == 405


async def test_a_moment_in_a_gap_of_the_kind_has_a_warning() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("web"))
        made, begin = Gaps(api.settings.data_dir), api.clock.now()
        api.clock.advance(10)
        made.add(EXPIRED, begin, api.clock.now(), "configmaps", "", missing=True)
        api.clock.advance(10)

        async def warning(plural: str, after: float) -> str:
            path = f"{api.path(plural)}?at={rfc3339(begin + round(after * SECOND))}"
            found = await api.ask("GET", path)
            found.expect(200)
            return found.headers.get("warning", "")

        text = await warning("configmaps", 5)
        assert "configmaps were not recorded from" in text and "versions are missing" in text
        assert await warning("configmaps", 11) == ""
        assert await warning("pods", 5) == ""
