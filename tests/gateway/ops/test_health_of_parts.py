"""Which failing part of a server makes which health check fail, with the names of kube-apiserver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rewound.actors.controllers.api_services import RegistrationController
from rewound.actors.controllers.custom_resources import CustomResourceController
from rewound.gateway.ops.checks import CHECK_NAMES, Checks
from rewound.gateway.ops.health import Health
from tests.cases import cases

HOOK = "poststarthook/"
NAMES = CHECK_NAMES["kubernetes"]


@dataclass
class FakeParts:
    """Stands in for every part of a server."""

    crashed: list[str] = field(default_factory=list)
    last_failure: str = ""
    damage: str = ""
    failed_followers: int = 0
    missing: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return self

    def failing(self) -> list[str]:
        return self.crashed

    def statistics(self) -> dict[str, None]:
        return {RegistrationController.name: None}

    def behind(self) -> int:
        return self.failed_followers

    def read(self) -> FakeParts:
        return self

    def check(self) -> str:
        return self.damage

    def unregistered(self, served: object) -> list[str]:
        return self.missing

    def groups(self) -> dict[str, tuple[str, ...]]:
        return {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def started(parts: FakeParts) -> Health:
    health = Health(lambda: 0.0, format_=NAMES.format)
    Checks(NAMES, parts, fairness=True).add_to(health)
    health.finish_start()
    return health


def failed(health: Health, kind: str = "readyz") -> set[str]:
    report = health.report(kind, verbose=True)
    assert report is not None
    lines = report[1].splitlines()[:-1]
    return {line[3:].partition(" ")[0] for line in lines if line.startswith("[-]")}


def test_all_parts_are_well() -> None:
    assert failed(started(FakeParts())) == set()


@cases(
    ("crashed", "names"),
    [
        ("admission plugin NamespaceLifecycle", {"start-kube-apiserver-admission-initializer"}),
        (
            "flow control",
            {
                "priority-and-fairness-config-consumer",
                "priority-and-fairness-filter",
                "storage-object-count-tracker-hook",
            },
        ),
        ("flow control controller", {"priority-and-fairness-config-producer"}),
        (CustomResourceController.name, {"start-apiextensions-controllers", "crd-informer-synced"}),
        (
            "feed",
            {
                "generic-apiserver-start-informers",
                "priority-and-fairness-config-consumer",
                "start-apiextensions-informers",
                "crd-informer-synced",
                "start-kube-aggregator-informers",
                "apiservice-registration-controller",
            },
        ),
        ("aggregation trust publisher", {"start-cluster-authentication-info-controller"}),
        (
            RegistrationController.name,
            {"apiservice-registration-controller", "kube-apiserver-autoregistration"},
        ),
        ("API service availability controller", {"apiservice-status-available-controller"}),
        (
            "API service description controller",
            {"apiservice-openapi-controller", "apiservice-openapiv3-controller"},
        ),
        ("garbage collector", set()),
    ],
)
def test_crashed_task_fails_its_hooks(crashed: str, names: set[str]) -> None:
    found = failed(started(FakeParts(crashed=[crashed])), "livez")
    assert found == {f"{HOOK}{name}" for name in names} | {"actors"}


def test_hooks_fail_until_the_start_is_finished() -> None:
    health = Health(lambda: 0.0, format_=NAMES.format)
    Checks(NAMES, FakeParts(), fairness=True).add_to(health)
    assert failed(health) == set(NAMES.hooks)


def test_hooks_of_the_start_pass_livez_during_its_grace_period() -> None:
    health = Health(lambda: 0.0, 10.0, NAMES.format)
    Checks(NAMES, FakeParts(), fairness=True).add_to(health)
    assert failed(health, "livez") == set()
    assert failed(health, "healthz") == set(NAMES.hooks)


def test_followers_that_are_behind_fail_informer_sync() -> None:
    assert failed(started(FakeParts(failed_followers=2))) == {"informer-sync"}
    assert failed(started(FakeParts(failed_followers=2)), "livez") == set()


def test_registration_is_complete_once_all_group_versions_had_their_api_service() -> None:
    parts = FakeParts(missing=["v1.apps"])
    health = started(parts)
    assert health.report("readyz", "autoregister-completion") == (
        500,
        "internal server error: missing APIService: ['v1.apps']\n",
    )
    parts.missing = []
    assert failed(health) == set()
    parts.missing = ["v1.apps"]  # a client deleted it
    assert failed(health) == set()


def test_journal_that_cannot_be_written_fails_etcd_but_not_livez() -> None:
    for parts in (FakeParts(last_failure="the disk is full"), FakeParts(damage="its file is gone")):
        assert failed(started(parts)) == {"etcd"}
        assert failed(started(parts), "livez") == set()
