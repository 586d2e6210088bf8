"""The health of a worker process: its own, and that of the process that writes for it."""

from __future__ import annotations

import pytest
import trio

from rewound.actors.controllers.api_services import RegistrationController
from rewound.gateway.ops.checks import CHECK_NAMES, Checks, Condition
from rewound.gateway.ops.health import Health
from tests.cases import cases
from tests.gateway.ops.test_health_of_parts import HOOK, FakeParts, failed

REGISTRATION = RegistrationController.name


class Writer:
    """The process that writes; `answer` None: it is not running."""

    def __init__(self, parts: FakeParts) -> None:
        self.checks = Checks(CHECK_NAMES["kubernetes"], parts, fairness=True)
        self.away = self.hangs = False
        self.asked = 0

    async def condition(self) -> bytes:
        self.asked += 1
        if self.away:
            raise ConnectionError
        if self.hangs:
            await trio.sleep_forever()
        return self.checks.condition().encode()


def worker(writer: Writer, parts: FakeParts, rule: str = "kubernetes") -> tuple[Health, Checks]:
    names = CHECK_NAMES[rule]
    health = Health(lambda: 0.0, format_=names.format)
    checks = Checks(names, parts, fairness=True, ask_writer=writer.condition)
    checks.add_to(health)
    health.finish_start()
    return health, checks


async def failures(health: Health, kind: str = "readyz") -> set[str]:
    assert health.refresh is not None
    await health.refresh()
    return failed(health, kind)


@cases(
    ("of_writer", "of_worker", "ready", "live"),
    [
        ({}, {}, set(), set()),
        ({"last_failure": "disk full"}, {}, {"etcd"}, set()),
        ({"damage": "another file"}, {}, {"etcd"}, set()),
        ({"failed_followers": 1}, {}, {"informer-sync"}, set()),
        ({}, {"failed_followers": 1}, {"informer-sync"}, set()),
        ({"missing": ["v1.apps"]}, {}, {"autoregister-completion"}, {"autoregister-completion"}),
        ({}, {"missing": ["v1.apps"]}, set(), set()),  # the writer reports when all processes were ready
        ({"crashed": ["garbage collector"]}, {}, {"actors"}, {"actors"}),
        (
            {"crashed": [REGISTRATION]},
            {"crashed": ["flow control controller"]},
            *[
                {
                    "actors",
                    f"{HOOK}apiservice-registration-controller",
                    f"{HOOK}kube-apiserver-autoregistration",
                    f"{HOOK}priority-and-fairness-config-producer",
                }
            ]
            * 2,
        ),
    ],
)
async def test_checks_show_both_processes(
    of_writer: dict[str, object], of_worker: dict[str, object], ready: set[str], live: set[str]
) -> None:
    health, _ = worker(Writer(FakeParts(**of_writer)), FakeParts(**of_worker))  # type: ignore[arg-type]
    assert await failures(health) == ready
    assert await failures(health, "livez") == live


@pytest.mark.parametrize(("rule", "journal"), [("kubernetes", "etcd"), ("rewound", "journal")])
async def test_worker_without_its_writer_is_alive_but_not_ready(rule: str, journal: str) -> None:
    writer = Writer(FakeParts(crashed=["garbage collector"]))
    health, _ = worker(writer, FakeParts(), rule)
    assert await failures(health) == {"actors"}
    writer.away = True
    assert await failures(health) == await failures(health, "healthz") == {journal}
    assert await failures(health, "livez") == set()
    report = health.report("readyz", journal)
    assert report == (500, "internal server error: the process that writes the journal is being started\n")
    writer.away = False
    assert await failures(health) == {"actors"}


async def test_writer_that_does_not_answer_fails_readyz_in_time(autojump_clock: object) -> None:
    writer = Writer(FakeParts())
    health, _ = worker(writer, FakeParts())
    writer.hangs = True
    began = trio.current_time()
    assert await failures(health) == {"etcd"}
    assert trio.current_time() - began == pytest.approx(1.0)
    assert await failures(health, "livez") == set()


async def test_components_show_the_writer() -> None:
    writer = Writer(FakeParts(last_failure="disk full", crashed=["garbage collector"]))
    _, checks = worker(writer, FakeParts())
    problems = {
        one["metadata"]["name"]: one["conditions"][0].get("error")
        for one in await checks.component_statuses()
    }
    assert problems == {"controller-manager": "garbage collector", "etcd-0": "disk full"}
    assert writer.asked == 1


async def test_server_of_one_process_asks_no_other() -> None:
    health = Health(lambda: 0.0)
    checks = Checks(CHECK_NAMES["rewound"], FakeParts(), fairness=True)
    checks.add_to(health)
    assert health.refresh is None


def test_condition_is_the_same_when_it_was_sent() -> None:
    condition = Condition("full", ("a", "b"), 3, "v1.apps")
    assert Condition.decode(condition.encode()) == condition
    assert Condition.decode(Condition().encode()) == Condition()
