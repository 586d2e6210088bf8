"""What people ask a cluster's history: each question has its answer on the page after at most three clicks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.actors.object_store import memory_folder
from tests.browser.chromium import LONGEST, Page, open_page
from tests.browser.journal_page import LOADS, minutes, open_signed_in, patch, tell_story
from tests.browser.living_day import DAY, LivingDay
from tests.gateway.api import ALICE, Api, served

MOST_CLICKS = 3
EVENTS = "/apis/rewound.cluster.io/v1/timeline/events"


class Person:
    """Clicks, and looks at what the page shows then."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    async def click(self, selector: str, text: str = "") -> None:
        self.clicks += 1
        among = f"[...document.querySelectorAll({json.dumps(selector)})]"
        found = f"{among}.find((one) => one.innerText.includes({json.dumps(text)}))"
        await self.page.wait(found)
        await self.page.run(f"{found}.click()")

    async def find(self, text: str) -> None:
        """Search the whole journal."""
        self.clicks += 1
        await self.page.run("document.querySelector('[name=q]').value = ''")
        await self.page.type("[name=q]", text)
        await self.page.run("document.getElementById('filters').requestSubmit()")

    async def sees(self, selector: str, *texts: str) -> None:
        shown = f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)"
        await self.page.wait(
            f"{shown}.some((one) => {json.dumps(texts)}.every((text) => one.includes(text)))"
        )


async def who_changed_replicas_then(person: Person) -> None:
    await person.find("web replicas")
    await person.sees("#events li", "spec.replicas 2 → 5", "autoscaler")


async def what_broke_the_rollout(person: Person) -> None:
    await person.click("#headline button", "(ProgressDeadlineExceeded)")
    await person.sees("#object tr", "web:1 → web:2", "admin with ci")


async def who_fights_over_a_field(person: Person) -> None:
    await person.sees("#headline", "autoscaler and deployer changed spec.replicas")
    await person.click("#headline button", "deployments.apps default/web")
    # The picture shows the moment, and the row of the object.
    await person.page.wait("document.getElementById('lanes').getBoundingClientRect().top < innerHeight / 2")
    selected = "import('./app.js').then(({ lanes }) => lanes.selected?.item?.name)"
    with trio.fail_after(LONGEST):  # among many objects, it is loaded then
        while await person.page.run(selected) != "web":
            await trio.sleep(0.1)


async def who_deleted_the_settings(person: Person) -> None:
    await person.find("settings")
    await person.sees("#events li.deleted", "configmaps default/settings", "admin")


async def what_was_in_it(person: Person) -> None:
    await person.find("settings")
    await person.click("#events li.deleted button", "settings")
    await person.sees("#object", "color: red")


async def who_was_refused_and_why(person: Person) -> None:
    await person.sees("#headline", "delete refused by missing rights (403)", "alice")
    await person.click("#headline button", "refused")
    await person.sees("#events li.refused", 'User "alice" cannot delete resource "deployments"')


async def what_did_a_tool_do(person: Person) -> None:
    await person.find("web ci")
    await person.sees("#events li", "web:1 → web:2")


async def what_existed_then(person: Person) -> None:
    await person.find("job-3")
    await person.click("#events li button", "job-3")
    await person.click("#tab-state")
    await person.sees("#state", "At version", "job-2")


async def what_changed_between_two_moments(person: Person) -> None:
    await person.find("job-29")
    await person.click("#events li button", "job-29")
    await person.click("#compare")
    await person.sees("#comparison", "added", "configmaps")


async def who_set_this_field(person: Person) -> None:
    await person.click("#headline button", "deployments.apps default/web")
    await person.click("[data-part=blame]")
    await person.sees("#part tr", "spec.replicas", "deployer")


QUESTIONS: tuple[Callable[[Person], Awaitable[None]], ...] = (
    who_changed_replicas_then,
    what_broke_the_rollout,
    who_fights_over_a_field,
    who_deleted_the_settings,
    what_was_in_it,
    who_was_refused_and_why,
    what_did_a_tool_do,
    what_existed_then,
    what_changed_between_two_moments,
    who_set_this_field,
)


async def happen(api: Api) -> None:
    await tell_story(api)
    path = api.path("deployments", name="web")
    template = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
    await patch(api, path, {"spec": {"template": template}}, fieldManager="ci")
    api.clock.advance(10)
    failed = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    await patch(api, f"{path}/status", {"status": {"conditions": [failed]}}, fieldManager="controller")
    assert (await api.ask("DELETE", path, token=ALICE)).status == 403
    api.clock.advance(10)


async def ask_all(api: Api, page: Page, **shown: str) -> None:
    await open_signed_in(api, page, **shown)
    await all_searched(page)
    start = await page.run("location.hash")
    for question in QUESTIONS:
        loads = await page.run(LOADS)
        await page.run(f"location.hash = {json.dumps(start + '&question=' + question.__name__)}")
        await page.wait(f"{LOADS} > {loads} && document.getElementById('loading').hidden")
        person, began = Person(page), trio.current_time()
        await question(person)
        assert person.clicks <= MOST_CLICKS, question.__name__
        print(f"{question.__name__}: {person.clicks} clicks, {trio.current_time() - began:.1f} s")
    # The browser's Back leads to what was shown before.
    await page.run("history.back()")
    await page.wait("!location.hash.includes('object=')")


async def all_searched(page: Page) -> None:
    """Wait until the server has indexed the words of all events: until then the page says that it searches a part."""
    indexed = f'import("./app.js").then(({{ session }}) => session.get("{EVENTS}?q=web&limit=1"))'
    while await page.run(f"{indexed}.then((found) => Boolean(found.indexed))"):
        await trio.sleep(0.5)


@pytest.mark.timeout(600)
async def test_ten_questions(chromium: str) -> None:
    async with served() as api, open_page(chromium) as page:
        await happen(api)
        await ask_all(api, page, **minutes(api, 15, 1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_questions_about_a_million_events(chromium: str) -> None:
    """The same in the middle of a day of a living cluster, while the picture shows all of the day."""
    with memory_folder() as folder:
        async with served(folder, journal_retention=None) as api:
            day, journal = LivingDay(), Path(api.settings.journal)
            for part in range(2):
                await api.finish()
                day.add(journal, 500_000, DAY // 2)
                await api.start(prepared=True)
                api.clock.advance(DAY / 2e6)
                if part == 0:
                    await happen(api)
            async with open_page(chromium) as page:
                await ask_all(api, page, **minutes(api, 25 * 60, 1))
