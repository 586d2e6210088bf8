"""EventRateLimit: token buckets by server, namespace, user, and source and object; the wall clock fills them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.admission.chain import Admission, validate_ephemeral
from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.admission.plugins.event_rate_limit import EventRateLimit, Limit, parse_limits
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import RateLimited
from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import WriteContext
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.coroutines import without_waiting
from tests.cases import cases

EVENTS = built_in(CLUSTER).find("", "v1", "events")
V1 = {"apiVersion": "eventratelimit.admission.cluster.io/v1alpha1", "kind": "Configuration"}


class Writer:
    """Sends events to one plugin; `seconds` is the time."""

    def __init__(self, *limits: Limit) -> None:
        self._plugin = EventRateLimit(limits)
        self.seconds = 1000.0

    def write(
        self,
        namespace: str = "a",
        user: str = "u",
        host: str = "h",
        name: str = "n",
        *,
        dry_run: bool = False,
    ) -> str:
        """The message of the refusal; empty if the event is admitted."""
        assert EVENTS is not None
        event = {"metadata": {}, "source": {"host": host}, "involvedObject": {"kind": "Pod", "name": name}}
        context = WriteContext(round(self.seconds * 1_000_000), user, "m", "uid", "")
        request = AdmissionRequest("CREATE", EVENTS, namespace, "e", "", event, None, user, dry_run, context)
        try:
            chain = Admission([self._plugin]).chain(EVENTS, "CREATE", "")
            without_waiting(validate_ephemeral(chain, request))
        except RateLimited as error:
            return error.message
        return ""


def test_bucket_holds_a_burst_and_fills_with_time() -> None:
    writer = Writer(Limit("Server", qps=2, burst=3))
    assert [writer.write() for _ in range(3)] == [""] * 3
    assert writer.write() == "Too many requests: limit reached on type Server for key "
    writer.seconds += 0.4
    assert writer.write()
    writer.seconds += 0.1
    assert writer.write() == ""
    writer.seconds += 1000
    assert [bool(writer.write()) for _ in range(4)] == [False, False, False, True]


def test_clock_that_is_set_back_adds_no_tokens() -> None:
    writer = Writer(Limit("Server", qps=1, burst=1))
    assert writer.write() == ""
    writer.seconds -= 500
    assert writer.write()
    writer.seconds += 1
    assert writer.write() == ""


@cases(
    ("kind", "other", "key"),
    [
        ("Namespace", {"namespace": "b"}, "a"),
        ("User", {"user": "v"}, "u"),
        ("SourceAndObject", {"host": "i"}, "hPodn"),
        ("SourceAndObject", {"name": "m"}, "hPodn"),
    ],
)
def test_each_key_has_a_bucket(kind: str, other: dict[str, str], key: str) -> None:
    writer = Writer(Limit(kind, qps=1, burst=1))
    assert (writer.write(), writer.write(**other)) == ("", "")
    assert writer.write() == f"Too many requests: limit reached on type {kind} for key {key}"


def test_every_limit_takes_a_token_and_all_refusals_are_shown() -> None:
    writer = Writer(Limit("Server", qps=1, burst=2), Limit("Namespace", qps=1, burst=1))
    assert writer.write() == ""
    assert writer.write() == "Too many requests: limit reached on type Namespace for key a"
    refusals = "[limit reached on type Server for key , limit reached on type Namespace for key a]"
    assert writer.write() == f"Too many requests: {refusals}"


def test_dropped_bucket_starts_full() -> None:
    writer = Writer(Limit("Namespace", qps=1, burst=1, cache_size=2))
    assert [writer.write(one) for one in "abc"] == [""] * 3
    assert writer.write("c")
    assert writer.write("a") == ""


def test_dry_run_takes_no_token() -> None:
    writer = Writer(Limit("Server", qps=1, burst=1))
    assert [writer.write(dry_run=True) for _ in range(3)] == [""] * 3
    assert writer.write() == ""


def given(**document: Any) -> PluginConfiguration:
    return PluginConfiguration(Path("f"), "", document)


def test_configuration() -> None:
    limits = [
        {"type": "Server", "qps": 5, "burst": 10, "cacheSize": -1},
        {"type": "User", "qps": 1, "burst": 2},
        {"type": "Namespace", "qps": 1, "burst": 2, "cacheSize": 7},
    ]
    assert parse_limits(CLUSTER, given(**V1, limits=limits)) == (
        Limit("Server", 5, 10, 4096),
        Limit("User", 1, 2, 4096),
        Limit("Namespace", 1, 2, 7),
    )


@cases(
    ("document", "why"),
    [
        ({"limits": [{"type": "Server", "qps": 1, "burst": 1}]}, "kind: write apiVersion"),
        ({**V1}, "limits: must not be empty"),
        ({**V1, "limits": [], "x": 1}, "x: is not known"),
        ({**V1, "limits": [{"type": "server"}]}, "limits[0].type: must be one of Server"),
        ({**V1, "limits": [{"type": "User", "qps": 1}]}, "limits[0].burst: must be positive"),
        ({**V1, "limits": [{"type": "User", "burst": 1}]}, "limits[0].qps: must be positive"),
        ({**V1, "limits": [{"type": "User", "burst": "1"}]}, "limits[0].burst: must be a number"),
        (
            {**V1, "limits": [{"type": "User", "qps": 1, "burst": 1, "cacheSize": -1}]},
            "limits[0].cacheSize: must not be negative",
        ),
    ],
)
def test_configuration_that_cannot_be_used(document: dict[str, Any], why: str) -> None:
    with pytest.raises(AdmissionConfigurationError) as refused:
        parse_limits(CLUSTER, given(**document))
    assert str(refused.value).startswith(f"f: {why}")
