"""The recorder has a flow of its own in the API server, and waits as long as that one asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rewound.client.credentials import Credential, FixedCredential, bearer
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target
from rewound.recording.record.recorder import Recorder, RecordOptions
from rewound.release import RELEASE
from tests.actors.object_store import memory_folder
from tests.gateway.api import ADMIN, served
from tests.recording.flight.test_sight import manifests
from tests.testing.faults.injecting import injecting, on_config_maps

FLOWS = "apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


def session_of(api: Any, agent: str, token: str = ADMIN) -> StreamingSession:
    host, port = api.addresses.insecure
    target = Target(f"http://{host}:{port}", FixedCredential(Credential(bearer(token))), "a test")
    return StreamingSession(target, agent)


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_recorder_waits_as_long_as_the_server_asks(
    folder: Path, autojump_clock: MockClock, verb: str
) -> None:
    rule = on_config_maps({"error": {"code": 429, "retryAfterSeconds": 20}}, first=2)
    rule["match"] |= {"userAgent": f"rewound-flight/{RELEASE}", "verbs": [verb]}
    async with injecting(rule) as api:
        session = session_of(api, "rewound-flight")
        recorder = Recorder(session, folder, RecordOptions(kinds=("configmaps",)), api.clock.now)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            with trio.fail_after(600):
                while session.requests == 0 or not recorder.started.is_set():
                    await trio.sleep(1)
                await api.create("configmaps", {"metadata": {"name": "late"}})
                while ("default", "late") not in recorder.writer.names_of("configmaps"):
                    await trio.sleep(1)
            assert trio.current_time() - began >= 40
            nursery.cancel_scope.cancel()
        await session.aclose()


async def test_manifests_give_the_recorder_a_low_priority(autojump_clock: MockClock) -> None:
    plurals = {
        "FlowSchema": f"{FLOWS}/flowschemas",
        "PriorityLevelConfiguration": f"{FLOWS}/prioritylevelconfigurations",
        "Namespace": "api/v1/namespaces",
        "ServiceAccount": "api/v1/namespaces/rewound-flight/serviceaccounts",
        "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    }
    async with served(dialect="kubernetes") as api:
        for one in manifests():
            if one["kind"] in plurals:
                path = f"/{plurals[one['kind']]}?fieldValidation=Strict"
                (await api.ask("POST", path, one)).expect(201)
        account = "/api/v1/namespaces/rewound-flight/serviceaccounts/rewound-flight"
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await api.ask("POST", f"{account}/token", review)).expect(201)["status"]["token"]
        levels = {
            (await api.ask("GET", f"/{plurals[kind]}/rewound-flight")).expect(200)["metadata"]["uid"]: kind
            for kind in ("FlowSchema", "PriorityLevelConfiguration")
        }
        with trio.fail_after(60):
            while True:
                headers = (await api.ask("GET", "/api/v1/pods?limit=1", token=token)).headers
                found = [headers.get(f"x-kubernetes-pf-{one}-uid") for one in ("flowschema", "prioritylevel")]
                if [levels.get(str(one)) for one in found] == ["FlowSchema", "PriorityLevelConfiguration"]:
                    break
                await trio.sleep(1)
        # Its Lease has another one, and does not wait behind its lists.
        path = f"/{plurals['FlowSchema']}/rewound-flight-lease"
        uid = (await api.ask("GET", path)).expect(200)["metadata"]["uid"]
        lease = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/rewound-flight"
        found = [
            (await api.ask("GET", lease.format(one), token=token)).headers["x-kubernetes-pf-flowschema-uid"]
            for one in ("rewound-flight", "default")
        ]
        assert found[0] == uid and found[1] != uid
