"""Accounts, certificates and rights of a server that is Kubernetes 1.36."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.actors.kinds.test_pod_certificate_rules import condition, issued, request
from tests.actors.kinds.test_secret_warnings import CERTIFICATE, CURVE, OTHER, pem
from tests.actors.kinds.test_trust_bundle_rules import bundle
from tests.actors.kinds.test_trust_bundle_rules import certificate as trust_anchor
from tests.gateway.api import ALICE, Api, served

RBAC = "rbac.authorization.k8s.io"


@asynccontextmanager
async def serving() -> AsyncIterator[Api]:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        yield api


async def test_secret_whose_key_is_not_that_of_its_certificate_gets_a_warning() -> None:
    async with serving() as api:
        for name, key, expected in (
            ("a", CURVE, None),
            ("b", OTHER, '299 - "tls: private key does not match public key"'),
        ):
            data = {"tls.crt": CERTIFICATE, "tls.key": pem(key)}
            encoded = {part: base64.b64encode(text.encode()).decode() for part, text in data.items()}
            secret = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": encoded}
            made = await api.ask("POST", "/api/v1/namespaces/default/secrets", secret)
            assert made.status == 201 and made.headers.get("warning") == expected


async def test_missing_objects_are_named_by_the_requested_resource() -> None:
    async with serving() as api:
        rights = rule("create", "rolebindings", RBAC)
        await api.create("clusterroles", role("own", rights))
        await api.create("clusterrolebindings", binding("own", "own", user("alice")))
        path = f"/apis/{RBAC}/v1/namespaces/default/rolebindings"
        refused = (await api.ask("POST", path, binding("b", "nowhere", user("alice")), token=ALICE)).expect(
            404
        )
        assert refused["message"] == f'rolebindings.{RBAC} "nowhere" not found'
        scale = await api.ask("GET", "/api/v1/namespaces/default/replicationcontrollers/r/scale")
        assert scale.expect(404)["message"] == 'replicationcontrollers "r" not found'


async def test_signers_attest_bundles_and_decide_about_pod_certificates() -> None:
    gates = "ClusterTrustBundle=true,PodCertificateRequest=true"
    runtime = "certificates.k8s.io/v1beta1=true"
    async with served(
        dialect="kubernetes", kubernetes_version="1.36", feature_gates=gates, runtime_config=runtime
    ) as api:
        group = "certificates.k8s.io"
        writes = rule("create update get", "clustertrustbundles podcertificaterequests/status", group)
        await api.create("clusterroles", role("own", writes))
        await api.create("clusterrolebindings", binding("own", "own", user("alice")))
        made = bundle(trust_anchor(authority=True), "example.com:pods:a", "example.com/pods")
        bundles = f"/apis/{group}/v1beta1/clustertrustbundles"
        refused = (await api.ask("POST", bundles, made, token=ALICE)).expect(403)
        assert refused["message"] == (
            f'clustertrustbundles.{group} "example.com:pods:a" is forbidden: user not permitted to attest for '
            'signerName "example.com/pods"'
        )
        requests = f"/apis/{group}/v1beta1/namespaces/default/podcertificaterequests"
        created = (await api.ask("POST", requests, request())).expect(201)
        created["status"] = {"conditions": [condition("Denied")]}
        refused = (await api.ask("PUT", f"{requests}/a/status", created, token=ALICE)).expect(422)
        assert refused["details"]["causes"] == [
            {
                "reason": "FieldValueForbidden",
                "message": 'Forbidden: User "alice" is not permitted to "sign" for signer "example.com/pods"',
                "field": "spec.signerName",
            }
        ]
        await api.create(
            "clusterroles", role("signer", rule("sign attest", "signers", group, "example.com/*"))
        )
        await api.create("clusterrolebindings", binding("signer", "signer", user("alice")))
        (await api.ask("POST", bundles, made, token=ALICE)).expect(201)
        late = {**created, "status": issued()}
        refused = (await api.ask("PUT", f"{requests}/a/status", late, token=ALICE)).expect(422)
        assert refused["details"]["causes"][0]["message"].endswith(
            "must be set to within 5 minutes of kube-apiserver's current time"
        )
        (await api.ask("PUT", f"{requests}/a/status", created, token=ALICE)).expect(200)
