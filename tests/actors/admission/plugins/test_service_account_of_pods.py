"""Every pod runs as a service account, mounts its token, and uses only the secrets that the account allows."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins import service_account
from tests.actors.object_store import Refused, Store, open_store
from tests.cases import cases

PATH = "/var/run/secrets/cluster.io/serviceaccount"
MIRROR = {"annotations": {"cluster.io/config.mirror": "x"}}


def pod(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {"containers": containers, **spec}}


async def refusal(store: Store, document: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        await store.create("pods", document, dryRun="All")
    assert refused.value.reason == "Forbidden"
    return refused.value.message.removeprefix('pods "p" is forbidden: ')


async def test_pod_gets_the_default_account_and_its_token() -> None:
    async with open_store() as store:
        own = {"name": "own", "image": "i", "volumeMounts": [{"name": "v", "mountPath": PATH}]}
        init = {"name": "i", "image": "i"}
        made = await store.create(
            "pods",
            pod(
                containers=[{"name": "c", "image": "i"}, own],
                initContainers=[init],
                volumes=[{"name": "v"}],
            ),
        )
        spec = made["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        volume = spec["volumes"][1]
        assert volume["name"].startswith("cluster-api-access-") and len(volume["name"]) == 24
        assert volume["projected"] == {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "cluster-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        }
        mount = {"name": volume["name"], "readOnly": True, "mountPath": PATH}
        assert spec["containers"][0]["volumeMounts"] == spec["initContainers"][0]["volumeMounts"] == [mount]
        assert spec["containers"][1]["volumeMounts"] == own["volumeMounts"]
        assert list(spec)[:3] == ["volumes", "initContainers", "containers"]


async def test_existing_token_volume_is_used() -> None:
    async with open_store() as store:
        volume = {"name": "cluster-api-access-mine", "emptyDir": {}}
        made = await store.create("pods", pod(volumes=[volume]))
        assert made["spec"]["volumes"] == [volume]
        assert made["spec"]["containers"][0]["volumeMounts"][0]["name"] == volume["name"]


@cases(
    ("account", "own", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
async def test_token_mount_can_be_disabled(account: bool | None, own: bool | None, mounted: bool) -> None:
    async with open_store() as store:
        said = {} if account is None else {"automountServiceAccountToken": account}
        await store.create("serviceaccounts", {"metadata": {"name": "x"}, **said})
        spec = {} if own is None else {"automountServiceAccountToken": own}
        made = await store.create("pods", pod(serviceAccountName="x", **spec))
        assert ("volumes" in made["spec"]) is mounted


async def test_image_pull_secrets_come_from_the_account() -> None:
    async with open_store() as store:
        account = {"metadata": {"name": "x"}, "imagePullSecrets": [{"name": "s"}]}
        await store.create("serviceaccounts", account)
        made = await store.create("pods", pod(serviceAccountName="x"), dryRun="All")
        assert made["spec"]["imagePullSecrets"] == [{"name": "s"}]
        own = pod(serviceAccountName="x", imagePullSecrets=[{"name": "o"}])
        assert (await store.create("pods", own))["spec"]["imagePullSecrets"] == [{"name": "o"}]


async def test_missing_account_is_refused() -> None:
    async with open_store() as store:
        assert await refusal(store, pod(serviceAccountName="x")) == (
            'error looking up service account default/x: serviceaccount "x" not found'
        )


async def test_secrets_that_the_account_does_not_list_are_refused() -> None:
    async with open_store() as store:
        strict = {"annotations": {"cluster.io/enforce-mountable-secrets": "true"}, "name": "x"}
        listed = {"secrets": [{"name": "ok"}], "imagePullSecrets": [{"name": "pull"}]}
        await store.create("serviceaccounts", {"metadata": strict, **listed})
        why = "is not allowed because service account x does not reference that"
        key = {"secretKeyRef": {"name": "no", "key": "k"}}
        reading = {"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": key}]}
        for spec, what in (
            (
                {"volumes": [{"name": "v", "secret": {"secretName": "no"}}]},
                f'volume with secret.secretName="no" {why} secret',
            ),
            (
                {"containers": [reading]},
                f'container c with envVar A referencing secret.secretName="no" {why} secret',
            ),
            (
                {"initContainers": [{**reading, "name": "d"}]},
                f'init container d with envVar A referencing secret.secretName="no" {why} secret',
            ),
            (
                {"imagePullSecrets": [{"name": "no"}]},
                f'imagePullSecrets[0].name="no" {why} imagePullSecret',
            ),
        ):
            assert await refusal(store, pod(serviceAccountName="x", **spec)) == what
        volumes = [{"name": "v", "secret": {"secretName": "ok"}}]
        await store.create("pods", pod(serviceAccountName="x", volumes=volumes))


@cases(
    ("spec", "why"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "cephfs": {"monitors": ["m"], "secretRef": {"name": "s"}}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "azureFile": {"secretName": "s", "shareName": "n"}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
async def test_mirror_pod_may_not_reference_accounts_or_secrets(spec: Any, why: str) -> None:
    async with open_store() as store:
        assert await refusal(store, pod(MIRROR, nodeName="n", **spec)) == why


async def test_mirror_pod_gets_no_account() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod(MIRROR, nodeName="n"))
        assert "serviceAccountName" not in made["spec"] and "volumes" not in made["spec"]


async def test_changed_account_counts_from_the_next_pod_on() -> None:
    async with open_store() as store:

        async def mounts() -> bool:
            made = await store.create("pods", pod(serviceAccountName="a"), dryRun="All")
            return "volumeMounts" in made["spec"]["containers"][0]

        await store.create("serviceaccounts", {"metadata": {"name": "a"}})
        assert await mounts() and await mounts()
        account = {"metadata": {"name": "a"}, "automountServiceAccountToken": False}
        await store.replace("serviceaccounts", account)
        assert not await mounts()
        await store.delete("serviceaccounts", "a")
        assert "not found" in await refusal(store, pod(serviceAccountName="a"))
        await store.create("serviceaccounts", {"metadata": {"name": "a"}})
        assert await mounts()


async def test_cached_accounts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_account, "MAX_CACHED", 2)
    monkeypatch.setattr(service_account, "LARGEST_CACHED", 1000)
    async with open_store() as store:
        accounts = service_account.Accounts(store.journal, store.feed)
        for name in "abcd":
            await store.create("serviceaccounts", {"metadata": {"name": name}})
            assert accounts.get("default", name, in_thread=False) is not None
            assert len(accounts._cached) <= 2
        await store.create(
            "serviceaccounts", {"metadata": {"name": "large", "annotations": {"a": "x" * 999}}}
        )
        assert accounts.get("default", "large", in_thread=False) is not None
        assert accounts.get("default", "a", in_thread=True) is not None
        assert set(accounts._cached) == {("default", "c"), ("default", "d")}
