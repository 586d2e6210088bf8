"""`rewound.explore` finds bugs in controllers, and prints the shortest run that shows them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

import rewound
from rewound import AsyncApi, ExplorationFailed, Invariant
from rewound.recording.replay.source import open_source
from rewound.testing.explore import parties
from rewound.testing.explore.explore import NotRepeatable
from tests.cases import cases
from tests.testing.explore.controllers import (
    MAPS,
    MERGE,
    create_maps,
    create_set,
    framer,
    never_too_many_pods,
    painter,
    trusts_its_cache,
    waits_for_its_pods,
)


def failing(keep: Path, *arguments: Any, **options: Any) -> ExplorationFailed:
    with pytest.raises(ExplorationFailed) as failed:
        rewound.explore(*arguments, keep=keep, **options)
    return failed.value


def test_stale_informer_is_found_in_a_few_steps_and_its_journal_can_be_replayed(tmp_path: Path) -> None:
    """The bug of kubernetes/kubernetes#129795; the test does not mention lag."""
    failed = failing(tmp_path, trusts_its_cache, create_set, invariants=[never_too_many_pods], seed=2)
    text = str(failed)
    assert len(failed.steps) <= 10
    assert "breaks the invariant never_too_many_pods: 3 pods" in text
    version = int(re.findall(r"version (\d+), the create of pods", text)[0])
    assert f"rewound replay {failed.journal}" in text
    with open_source(failed.journal, tmp_path / "imported") as recording:
        assert recording.head == version
    again = failing(
        tmp_path, trusts_its_cache, create_set, invariants=[never_too_many_pods], seed=2, repeat=failed.faults
    )
    assert (again.steps, again.reason) == (failed.steps, failed.reason)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stale_informer_is_found_with_every_seed(tmp_path: Path) -> None:
    for seed in range(6):
        failed = failing(tmp_path, trusts_its_cache, create_set, invariants=[never_too_many_pods], seed=seed)
        assert len(failed.steps) <= 10, str(failed)


def test_late_events_alone_show_the_stale_informer(tmp_path: Path) -> None:
    options: Any = {"invariants": [never_too_many_pods], "repeat": "5:lag:9"}
    failed = failing(tmp_path, trusts_its_cache, create_set, **options)
    assert "events of WATCH pods/default reach trusts_its_cache later, one by one" in failed.steps
    assert "3 pods" in failed.reason
    rewound.explore(waits_for_its_pods, create_set, **options)


def test_corrected_controller_passes() -> None:
    explored = rewound.explore(
        waits_for_its_pods, create_set, invariants=[never_too_many_pods], runs=5, seed=1, faults=NOT_STALE
    )
    assert explored.runs == 5 and explored.faults > 5


# After a start, a stale list makes even this one create pods that already exist.
NOT_STALE = ("turn", "crash", "lost", "lag", "reconnect", "time")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_corrected_controller_passes_under_a_thousand_random_lags() -> None:
    options: Any = {"invariants": [never_too_many_pods], "runs": 1000}
    assert rewound.explore(waits_for_its_pods, create_set, faults=("turn", "lag"), **options).runs == 1000


def test_stale_list_after_a_crash_is_found(tmp_path: Path) -> None:
    failed = failing(
        tmp_path,
        waits_for_its_pods,
        create_set,
        invariants=[never_too_many_pods],
        faults=("crash", "stale"),
        repeat="8:crash:0 1:stale:2",
    )
    assert "for its list" in str(failed) and "breaks the invariant never_too_many_pods" in str(failed)


def test_two_controllers_pass_with_all_faults() -> None:
    explored = rewound.explore([painter, framer], create_maps, runs=4, invariants=[COLORED_FIRST])
    assert explored.runs == 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_controllers_pass_a_thousand_runs() -> None:
    explored = rewound.explore([painter, framer], create_maps, runs=1000, invariants=[COLORED_FIRST])
    print(explored)
    assert explored.runs == 1000


COLORED_FIRST = Invariant(
    "new == null || !has(new.data) || !has(new.data.frame) || has(new.data.color)", kind="ConfigMap"
)


def web(api: rewound.Api) -> None:
    api.post(MAPS, json={"metadata": {"name": "web"}, "data": {"count": "1"}}).raise_for_status()
    api.settle()


def idle(api: rewound.Api) -> None:
    known = api.informers(MAPS)
    while True:
        known.update()


def count(api: rewound.Api, value: str) -> None:
    api.patch(f"{MAPS}/web", json={"data": {"count": value}}, headers=MERGE).raise_for_status()


def counts_down(api: rewound.Api) -> None:
    known = api.informers(MAPS)
    while True:
        known.update()
        for one in known[MAPS]:
            if one["metadata"]["name"] == "web" and one["data"]["count"] == "1":
                count(api, "0")


def never_counts_down(old: Any, new: Any) -> bool:
    return old is None or new is None or int(new["data"]["count"]) >= int(old["data"]["count"])


@cases(
    "invariant, text",
    [
        (Invariant(never_counts_down, kind="configmaps"), "breaks the invariant never_counts_down"),
        (
            Invariant("old == null || new.data.count == old.data.count", kind="ConfigMap"),
            "breaks the invariant",
        ),
        (
            Invariant("new.data.color == 'red'", kind="ConfigMap", name="red"),
            "breaks the invariant red: no such",
        ),
        (
            lambda state: [one["data"] for one in state("configmaps", "default")] != [{"count": "0"}],
            "<lambda>",
        ),
    ],
)
def test_invariants_are_checked_for_every_version(
    tmp_path: Path, invariant: Invariant | Callable[..., Any], text: str
) -> None:
    failed = failing(tmp_path, counts_down, web, invariants=[invariant], runs=1)
    assert text in failed.reason and "configmaps default/web" in failed.reason


@cases(
    "options, text",
    [
        ({"invariants": ["old +"]}, "invariants: 'old [+]' is not an expression"),
        ({"invariants": ["1 + 1"]}, "invariants: '1 [+] 1' is neither true nor false"),
        ({"invariants": [7]}, "invariants: 7 is neither a function nor an expression"),
        ({"invariants": [lambda: True]}, "<lambda> has 0 parameters; write .old, new. or .state."),
        ({"faults": ["thunder"]}, "faults: 'thunder' is none; there are turn, crash"),
        ({"repeat": "3:thunder:1"}, "repeat: '3:thunder:1' is not a fault; copy the text"),
        ({"flags": ["--data-dir=here"]}, "--data-dir: explore sets it for its servers"),
        ({"controllers": []}, "controllers: there is none"),
        ({"controllers": [idle, idle]}, "controllers: two have the same name"),
        ({"controllers": {"test": idle}}, "controllers: test is the name of the scenario"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        rewound.explore(**{"controllers": idle, "scenario": web, "runs": 1, **options})


def becomes_two(api: rewound.Api) -> None:
    web(api)
    assert api.get(f"{MAPS}/web").json()["data"] == {"count": "2"}


def doubles(api: rewound.Api) -> None:
    known = api.informers(MAPS)
    while True:
        known.update()
        for one in known[MAPS]:
            if one["metadata"]["name"] == "web" and one["data"]["count"] == "1":
                count(api, "2")


@cases(
    "faults, step",
    [
        ("0:turn:0", "doubles: LIST configmaps/default, WATCH configmaps/default"),
        ("1:crash:0", "doubles crashes before its LIST configmaps/default"),
        ("1:crash:1", "doubles crashes after its LIST configmaps/default -> 200"),
        ("3:crash:1", "doubles crashes after its PATCH configmaps/default/web -> 200"),
        ("4:crash:1", "doubles crashes while it waits for events or time"),
        ("1:lost:0", "doubles does not get the reply to its LIST configmaps/default -> 200"),
        ("1:lost:1", "doubles cannot connect for its LIST configmaps/default"),
        ("3:lag:0", "events of WATCH configmaps/default reach doubles later"),
        ("3:reconnect:0", "WATCH configmaps/default of doubles ends"),
        ("1:stale:0", "doubles gets the state of version"),
        ("0:time:2", "60 s pass"),
    ],
)
def test_each_fault_happens_and_the_controller_reaches_its_end(faults: str, step: str) -> None:
    explored = rewound.explore(doubles, becomes_two, repeat=faults, same_end=False)
    assert any(one.startswith(step) for one in explored.steps), explored.steps


def test_watch_that_begins_again_repeats_events() -> None:
    def changes_twice(api: rewound.Api) -> None:
        web(api)
        count(api, "3")
        count(api, "4")
        api.settle()

    explored = rewound.explore(doubles, changes_twice, repeat="6:reconnect:4", same_end=False)
    text = "\n".join(explored.steps)
    assert "WATCH configmaps/default of doubles ends; the next one repeats the last 1 events" in text
    assert text.count("gets MODIFIED ConfigMap default/web") == 4


def test_other_end_than_without_faults_is_found(tmp_path: Path) -> None:
    def only_once(api: rewound.Api) -> None:
        """Creates another map for each event, and misses those that it did not see."""
        known = api.informers(MAPS)
        known.update()
        known.update()
        api.post(MAPS, json={"metadata": {"name": "other"}, "data": {"maps": str(len(known[MAPS]))}})

    def creates(api: rewound.Api) -> None:
        api.sleep(1)
        web(api)

    failed = failing(tmp_path, only_once, creates, repeat="3:crash:0")
    assert "it ends otherwise than without faults:\n  configmaps default/other is missing" in failed.reason
    rewound.explore(only_once, creates, repeat=failed.faults, same_end=False)
    rewound.explore(only_once, creates, repeat=failed.faults, same_end=lambda one: None)


def test_async_controllers_with_several_tasks_are_explored() -> None:
    async def counts_twice(api: AsyncApi) -> None:
        async with trio.open_nursery() as nursery:
            for value in ("1", "2"):
                nursery.start_soon(follow, api, value)

    async def follow(api: AsyncApi, value: str) -> None:
        while True:
            async for event in await api.watch(MAPS):
                if event["object"].get("data", {}).get("count") == value:
                    body = {"data": {"count": str(int(value) + 1)}}
                    (await api.patch(f"{MAPS}/web", json=body, headers=MERGE)).raise_for_status()

    async def creates(api: AsyncApi) -> None:
        await api.post(MAPS, json={"metadata": {"name": "web"}, "data": {"count": "1"}})
        await api.settle()
        assert (await api.get(f"{MAPS}/web")).json()["data"] == {"count": "3"}

    faults = ("turn", "crash", "lag", "time")
    explored = rewound.explore(counts_twice, creates, runs=5, faults=faults)
    assert explored.runs == 5


def test_sleeping_controllers_settle_in_the_time_of_the_server() -> None:
    def every_minute(api: rewound.Api) -> None:
        while True:
            api.sleep(60)
            found = api.get(f"{MAPS}/web")
            if found.status_code == 200 and found.json()["data"]["count"] != "3":
                count(api, str(int(found.json()["data"]["count"]) + 1))

    def waits(api: rewound.Api) -> None:
        web(api)
        assert api.get(f"{MAPS}/web").json()["data"] == {"count": "3"}

    rewound.explore(every_minute, waits, runs=5)


@cases(
    "function, text",
    [
        ("fights", "it does not settle: 100 requests and events, and somebody still goes on"),
        ("raises", "raises failed: KeyError: 'color'"),
        ("fails", "fails ends again and again: HTTPStatusError: Client error '404 Not Found'"),
    ],
)
def test_controllers_that_never_come_to_an_end_fail(tmp_path: Path, function: str, text: str) -> None:
    def fights(api: rewound.Api) -> None:
        known = api.informers(MAPS)
        while True:
            known.update()
            count(api, str(len(known[MAPS][-1]["data"]["count"])))
            count(api, "10")

    def raises(api: rewound.Api) -> None:
        {}["color"]

    def fails(api: rewound.Api) -> None:
        api.get(f"{MAPS}/none").raise_for_status()

    found = {"fights": fights, "raises": raises, "fails": fails}[function]
    failed = failing(tmp_path, {function: found}, web, most=100, runs=1)
    assert failed.reason.startswith(text)
    assert failed.faults == "" and "a run with no faults fails" in str(failed)


def test_controller_that_does_not_repeat_itself_is_named(tmp_path: Path) -> None:
    ran: list[int] = []

    def forgets(api: rewound.Api) -> None:
        ran.append(1)
        if len(ran) == 3:
            raise KeyError("third")
        idle(api)

    with pytest.raises(NotRepeatable, match="the same faults did not fail a second time"):
        rewound.explore(forgets, web, runs=20, faults=("turn",), keep=tmp_path)


def test_controller_that_waits_outside_its_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parties, "_SECONDS", 2.0)
    over = threading.Event()

    def waits(api: rewound.Api) -> None:
        over.wait(60)

    try:
        with pytest.raises(parties.Stuck, match="waits has neither called its client nor ended for 2 s"):
            rewound.explore(waits, web)
    finally:
        over.set()


def test_controller_that_survives_a_crash_is_named() -> None:
    def survives(api: rewound.Api) -> None:
        while True:
            try:
                api.get(MAPS)
            except BaseException:
                pass

    with pytest.raises(parties.Stuck, match="survives catches BaseException and does not end"):
        rewound.explore(survives, web, repeat="1:crash:0", same_end=False)


async def test_in_an_event_loop_the_error_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="call it in a thread"):
        rewound.explore(idle, web)


def test_without_hypothesis_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hypothesis", None)
    with pytest.raises(ImportError, match="pip install hypothesis"):
        rewound.explore(idle, web)


def test_lost_replies_are_errors_of_httpx() -> None:
    seen: list[str] = []

    def asks(api: rewound.Api) -> None:
        for _ in range(2):
            try:
                api.get(MAPS)
            except httpx.TransportError as error:
                seen.append(type(error).__name__)

    rewound.explore(asks, web, repeat="1:lost:0 0:lost:1", same_end=False)
    assert seen == ["ReadError", "ConnectError"]
