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
from tests.api.access.test_service_account_secrets import decoded, filled_secret, make_secret
from tests.gateway.account_tokens import claims_of, eventually, make_account, status_with
from tests.gateway.account_tokens import issued as issued_token
from tests.gateway.api import ALICE, Api, served
from tests.gateway.audit.auditing import audited, rules
from tests.settling import settled

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


async def test_old_pod_certificate_requests_are_deleted() -> None:
    gates, runtime = "PodCertificateRequest=true", "certificates.k8s.io/v1beta1=true"
    async with served(
        dialect="kubernetes", kubernetes_version="1.36", feature_gates=gates, runtime_config=runtime
    ) as api:
        requests = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
        (await api.ask("POST", requests, request())).expect(201)
        api.clock.advance(899)
        await api.restart()
        assert len((await api.ask("GET", requests)).expect(200)["items"]) == 1
        api.clock.advance(1)
        await api.restart()
        assert (await api.ask("GET", requests)).expect(200)["items"] == []


async def test_issued_tokens_are_audited_by_their_id() -> None:
    policy = rules("level: Metadata").replace("audit.cluster.io", "audit.k8s.io")
    async with audited(policy, dialect="kubernetes", kubernetes_version="1.36") as audit:
        await make_account(audit.api)
        token = await issued_token(audit.api)
        assert await status_with(audit.api, token) == 403
        await audit.api.ask("GET", "/api/v1/nodes", headers={"impersonate-user": "bob"})
        await audit.api.finish()
        token_id = f"JTI={claims_of(token)['jti']}"
        ended = [one for one in audit.events if one["stage"] == "ResponseComplete"]
        found = [one["annotations"].get("authentication.kubernetes.io/issued-credential-id") for one in ended]
        assert [one for one in found if one] == [token_id]
        by = [
            one["user"] for one in ended if one["user"]["username"] == "system:serviceaccount:default:robot"
        ]
        assert [one["extra"]["authentication.kubernetes.io/credential-id"] for one in by] == [[token_id]]
        impersonated = [one.get("authenticationMetadata") for one in ended if "impersonatedUser" in one]
        assert impersonated == [{"impersonationConstraint": "impersonate:user-info"}]


async def test_use_of_tokens_in_secrets_is_recorded() -> None:
    policy = rules("level: Metadata").replace("audit.cluster.io", "audit.k8s.io")
    prefix, label = "authentication.k8s.io/legacy-token", "kubernetes.io/legacy-token"
    async with audited(policy, dialect="kubernetes", kubernetes_version="1.36") as audit:
        api = audit.api
        account = await make_account(api)
        await make_secret(api)
        token = decoded(await filled_secret(api), "token")
        assert (await api.ask("GET", "/api/v1/namespaces", token=token)).status == 403
        await settled()
        secret = await filled_secret(api)
        created = secret["metadata"]["creationTimestamp"][:10]
        assert secret["metadata"]["labels"] == {f"{label}-last-used": created}
        await api.replace("serviceaccounts", {**account, "secrets": [{"name": "t"}]})
        warned = await api.ask("GET", "/api/v1/namespaces", token=token)
        assert "instead of auto-generated secret-based tokens" in warned.headers["warning"]
        secret["metadata"]["labels"][f"{label}-invalid-since"] = created
        await api.replace("secrets", secret)
        assert (await api.ask("GET", "/api/v1/namespaces", token=token)).status == 401
        await api.finish()
        ended = [one for one in audit.events if one["requestURI"] == "/api/v1/namespaces"]
        ended = [one for one in ended if one["stage"] != "RequestReceived"]
        name = "system:serviceaccount:default:robot"
        expected = [
            {prefix: name, f"{prefix}-manual-secret": "t"},
            {prefix: name, f"{prefix}-autogenerated-secret": "t"},
            {f"{prefix}-invalidated": "t/default"},
        ]
        found = [
            {key: value for key, value in one["annotations"].items() if "legacy" in key} for one in ended
        ]
        assert found == expected


async def test_config_map_says_since_when_tokens_in_secrets_are_tracked() -> None:
    async with serving() as api:
        path = (
            "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"
        )
        found = (await eventually(api, path, lambda one: one.status == 200)).document
        assert found["data"]["since"] == found["metadata"]["creationTimestamp"][:10]
        assert found["metadata"]["managedFields"][0]["manager"] == "kube-apiserver"
        found["data"] = {"since": "yesterday", "more": "x"}
        (await api.ask("PUT", path, found)).expect(200)
        repaired = {"since": found["metadata"]["creationTimestamp"][:10], "more": "x"}
        await eventually(api, path, lambda one: one.expect(200)["data"] == repaired)
