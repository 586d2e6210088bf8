"""The file of --authorization-config: its validation, with the texts of kube-apiserver, and what a change of it does.

Every text of `REFUSED` is one that kube-apiserver 1.36 printed for the same file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorize import Attributes, Authorizer, Decision, Verdict
from rewound.actors.identity import User
from rewound.actors.names import KUBERNETES
from rewound.gateway.settings.access import AuthorizationSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.server.authorization import Authorization
from rewound.server.flags.parser import parse_flags
from tests.cases import cases
from tests.gateway.outgoing.https_peer import Received, Reply, https_peer
from tests.server.test_secure_port import until

BETA = "apiserver.config.k8s.io/v1beta1"
RBAC = {"type": "RBAC", "name": "rbac"}
ALLOW = {"type": "AlwaysAllow", "name": "alwaysallow"}
DENY = {"type": "AlwaysDeny", "name": "alwaysdeny"}
ASKED = Attributes(User("jane"), "get", "", "v1", "pods", "", "x", "a")
LOAD = "failed to load AuthorizationConfiguration from file: "
SCHEME = 'in scheme "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32"'


def file(*authorizers: Any, version: str = BETA, **more: Any) -> str:
    return json.dumps(
        {"apiVersion": version, "kind": "AuthorizationConfiguration", "authorizers": authorizers, **more}
    )


def hook(kubeconfig: str = "", name: str = "hook", **changed: Any) -> dict[str, Any]:
    webhook = {
        "timeout": "3s",
        "failurePolicy": "NoOpinion",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "connectionInfo": {
            "type": "KubeConfigFile",
            "kubeConfigFile": kubeconfig or "/nonexistent/kube.yaml",
        },
        **changed,
    }
    return {"type": "Webhook", "name": name, "webhook": webhook}


def authorization(path: Path, text: str, version: str = "1.36", gates: str = "") -> Authorization:
    path.write_text(text)
    settings = Settings(
        data_dir=path.parent,
        dialect="kubernetes",
        kubernetes_version=version,
        feature_gates=gates,
        authorization=AuthorizationSettings(authorization_config=path),
    )
    none: Any = None
    return Authorization(settings, KUBERNETES, none, none, cast(Rbac, object.__new__(_NoRbac)), ())


class _NoRbac:
    def authorize(self, attributes: Attributes) -> Decision:
        return Decision(Verdict.NO_OPINION, "rbac")


def refusal(path: Path, text: str, version: str = "1.36") -> str:
    try:
        authorization(path, text, version)
    except SettingsError as error:
        return str(error).removeprefix("--authorization-config: ")
    return ""


MISSING = (
    'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/nonexistent/kube.yaml": '
    "error loading file: stat /nonexistent/kube.yaml: no such file or directory"
)


@cases(
    ("text", "expected"),
    [
        ("", "authorizers: Required value: at least one authorization mode must be defined"),
        (file(), "authorizers: Required value: at least one authorization mode must be defined"),
        ("{}", LOAD + "Object 'Kind' is missing in '{}'"),
        ("kind: X", LOAD + "Object 'apiVersion' is missing in 'kind: X'"),
        (
            '{"apiVersion": "x",',
            LOAD + "couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
        ("a: b\n c: d", LOAD + "yaml: line 2: mapping values are not allowed in this context"),
        (
            file(version="apiserver.config.k8s.io/v2"),
            LOAD + 'no kind "AuthorizationConfiguration" is registered for version '
            f'"apiserver.config.k8s.io/v2" {SCHEME}',
        ),
        (
            f"apiVersion: {BETA}\nkind: TracingConfiguration",
            LOAD + "expected AuthorizationConfiguration, got *apiserver.TracingConfiguration",
        ),
        (
            file({**RBAC, "bar": 2}, foo=1),
            LOAD + 'strict decoding error: unknown field "authorizers[0].bar", unknown field "foo"',
        ),
        (
            f"apiVersion: {BETA}\nkind: AuthorizationConfiguration\nkind: AuthorizationConfiguration\n",
            LOAD + 'strict decoding error: yaml: unmarshal errors:\n  line 3: key "kind" already set in map',
        ),
        (
            file({"type": 7}),
            LOAD
            + "json: cannot unmarshal number into Go struct field AuthorizerConfiguration.authorizers.type "
            "of type string",
        ),
        (file(hook(timeout="3")), LOAD + 'time: missing unit in duration "3"'),
        (
            file(hook(timeout=3)),
            LOAD + "json: cannot unmarshal number into Go struct field "
            "WebhookConfiguration.authorizers.webhook.timeout of type string",
        ),
        (file({"type": "RBAC"}), "authorizers[0].name: Required value"),
        (file({"type": "RBAC", "name": "mine"}), "expected name rbac for authorizer RBAC instead of mine"),
        (file(RBAC, {**RBAC, "name": "x"}), 'authorizers[1].type: Duplicate value: "RBAC"'),
        (
            file({**RBAC, "webhook": {}}),
            'authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook',
        ),
        (
            file({"type": "Webhook", "name": "a"}),
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (
            file({"type": "Foo", "name": "a"}),
            'authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", '
            '"Node", "RBAC", "Webhook"',
        ),
        (
            file({"type": "Webhook", "name": "hook", "webhook": {}}),
            "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, "
            "authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]",
        ),
        (file(hook()), MISSING),
        (
            file(hook(timeout="1h2m3.5s", unauthorizedTTL="-1ms", failurePolicy="Ignore")),
            '[authorizers[0].timeout: Invalid value: "1h2m3.5s": must be > 0s and <= 30s, '
            'authorizers[0].unauthorizedTTL: Invalid value: "-1ms": must be > 0s, '
            'authorizers[0].failurePolicy: Unsupported value: "Ignore": supported values: "NoOpinion", "Deny", '
            f"{MISSING}]",
        ),
        (
            file(hook(connectionInfo={"type": "Foo"})),
            'authorizers[0].connectionInfo.type: Unsupported value: {"Type":"Foo","KubeConfigFile":null}: '
            'supported values: "InClusterConfig", "KubeConfigFile"',
        ),
        (
            file(hook("kube.yaml", matchConditions=[{"expression": "request.user"}])),
            '[authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "kube.yaml": must be an absolute path, '
            'authorizers[0].matchConditions[0].expression: Invalid value: "request.user": '
            "must evaluate to bool but got string]",
        ),
    ],
)
def test_refused_files(tmp_path: Path, text: str, expected: str) -> None:
    assert refusal(tmp_path / "config", text) == expected


def test_versions_of_the_file(tmp_path: Path) -> None:
    path, group = tmp_path / "config", "apiserver.config.k8s.io"
    for version, known in (("1.30", "v1alpha1 v1beta1"), ("1.36", "v1alpha1 v1beta1 v1")):
        for of_file in ("v1alpha1", "v1beta1", "v1"):
            refused = refusal(path, file(ALLOW, version=f"{group}/{of_file}"), version)
            assert (refused == "") == (of_file in known.split()), (version, of_file, refused)
    switches = file(hook(cacheAuthorizedRequests=False))
    assert "cacheAuthorizedRequests" in refusal(path, switches, "1.33")
    assert refusal(path, switches, "1.34") == MISSING
    with pytest.raises(
        SettingsError, match="without enabling StructuredAuthorizationConfiguration feature flag"
    ):
        authorization(path, file(ALLOW), "1.29")
    assert authorization(
        path, file(ALLOW, version=f"{group}/v1alpha1"), "1.29", "StructuredAuthorizationConfiguration=true"
    )


def test_a_thousand_webhooks_of_one_name_are_refused_with_bounded_errors(tmp_path: Path) -> None:
    refused = refusal(tmp_path / "config", file(*[hook()] * 1000))
    assert 'authorizers[1].name: Duplicate value: "hook"' in refused and len(refused) < 300_000


@cases(
    "flag",
    [
        "--authorization-mode=RBAC",
        "--authorization-webhook-version=v1",
        "--authorization-webhook-cache-authorized-ttl=1s",
    ],
)
def test_flags_that_the_file_replaces(tmp_path: Path, flag: str) -> None:
    (tmp_path / "config").write_text("")
    given = [f"--authorization-config={tmp_path / 'config'}"]
    with pytest.raises(SettingsError) as refused:
        parse_flags([*given, flag])
    assert str(refused.value) == (
        "--authorization-config: can not be specified when --authorization-mode or --authorization-webhook-* flags "
        "are defined"
    )


Configured = Callable[[str], Authorization]


@pytest.fixture
async def configured(tmp_path: Path) -> AsyncIterator[Configured]:
    """Makes the authorization of a file, and closes its connections at the end."""
    made: list[Authorization] = []

    def make(text: str) -> Authorization:
        made.append(authorization(tmp_path / "config", text))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def decide(authorizer: Authorizer, attributes: Attributes = ASKED) -> Decision:
    decision = authorizer.authorize(attributes)
    return decision if isinstance(decision, Decision) else await decision


def review(**status: Any) -> Callable[[Received], Any]:
    return lambda received: {**received.document, "status": status}


@pytest.mark.parametrize(("policy", "expected"), [("Deny", Verdict.DENY), ("NoOpinion", Verdict.ALLOW)])
async def test_a_webhook_that_fails(
    tmp_path: Path, configured: Configured, policy: str, expected: Verdict
) -> None:
    """A hanging webhook costs its timeout, and then its failure policy decides."""

    async def hang(received: Received) -> Any:
        await trio.sleep_forever()

    async with https_peer(hang) as peer:
        failing = hook(str(peer.kubeconfig(tmp_path)), timeout="10ms", failurePolicy=policy)
        made = configured(file(failing, ALLOW))
        decision = await decide(made.authorizer)
    assert decision.verdict is expected
    assert ("did not respond within 0.01 s" in decision.error) == (policy == "Deny")
    of_hook = made.statistics.webhooks["hook"]
    assert of_hook.calls.keys() == {"timeout"}
    assert of_hook.failures_open == ({} if policy == "Deny" else {"timeout": 1})
    counted = {key: tuple(counts) for key, counts in made.statistics.decisions.items() if any(counts)}
    decided = ("Webhook", "hook") if policy == "Deny" else ("AlwaysAllow", "alwaysallow")
    assert counted == {decided: (1, 0) if policy == "Deny" else (0, 1)}


async def test_webhooks_in_their_order_with_conditions_and_caches(
    tmp_path: Path, configured: Configured
) -> None:
    async with (
        https_peer(review(denied=True, reason="never")) as strict,
        https_peer(review(allowed=True)) as open_,
    ):
        (tmp_path / "a").mkdir()
        condition = {"expression": "request.resourceAttributes.namespace == 'kube-system'"}
        first = hook(
            str(strict.kubeconfig(tmp_path / "a")), "first", failurePolicy="Deny", matchConditions=[condition]
        )
        second = hook(str(open_.kubeconfig(tmp_path)), "second", cacheAuthorizedRequests=False)
        made = configured(file(first, second))
        guarded = Attributes(User("jane"), "get", "", "v1", "pods", "", "kube-system", "a")
        assert (await decide(made.authorizer)).allowed and (await decide(made.authorizer)).allowed
        assert len(open_.received) == 2, "not cached"
        assert await decide(made.authorizer, guarded) == Decision(Verdict.DENY, "never")
        assert len(strict.received) == 1
        path = Attributes(User("jane"), "get", path="/x", is_resource=False)
        failed = await decide(made.authorizer, path)
        assert failed.verdict is Verdict.DENY and failed.error.endswith("no such key: resourceAttributes")
        masters = Attributes(User("root", groups=("system:masters",)), "get", path="/x", is_resource=False)
        assert (await decide(made.authorizer, masters)).allowed
    counted = made.statistics.webhooks["first"]
    assert (counted.exclusions, counted.condition_errors, sum(counted.conditions.counts)) == (2, 1, 4)


async def test_a_changed_file_takes_effect_and_a_wrong_one_does_not(
    tmp_path: Path, configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    made = configured(file(RBAC, ALLOW))
    reloads = made.statistics.reloads
    assert reloads is not None and reloads.counts == {}
    first = reloads.hash
    authorizer = made.authorizer
    assert (await decide(authorizer)).allowed

    async def reload(text: str) -> str:
        caplog.clear()
        await made.reload(text.encode())
        return "\n".join(record.getMessage() for record in caplog.records)

    failed = "reloading authorization config: "
    assert (
        await reload("")
        == f"{failed}authorizers: Required value: at least one authorization mode must be defined"
    )
    assert await reload(file(RBAC)) == f"{failed}missing required types: [AlwaysAllow]"
    node = file(RBAC, ALLOW, {"type": "Node", "name": "node"})
    assert await reload(node) == (
        f"{failed}authorizer type Node is not allowed if it was not enabled at initial server startup"
    )
    assert (await decide(authorizer)).allowed
    assert (reloads.counts, reloads.hash) == ({"failure": 3}, first)
    assert await reload(file(RBAC, ALLOW) + "\n") == ""
    assert (reloads.counts, reloads.hash) == ({"failure": 3}, first), "the same configuration in other words"
    async with https_peer(review(denied=True)) as peer:
        assert await reload(file(hook(str(peer.kubeconfig(tmp_path))), RBAC, ALLOW)) == ""
        assert (await decide(authorizer)).verdict is Verdict.DENY
    assert reloads.counts == {"failure": 3, "success": 1} and reloads.hash != first
    assert await reload(file(DENY, ALLOW, RBAC)) == ""
    assert (await decide(authorizer)).allowed


async def test_a_changed_kubeconfig_of_a_webhook_takes_effect(
    tmp_path: Path, configured: Configured, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.05  # the kernel delivers what is under way between sockets
    async with (
        https_peer(review(allowed=True)) as open_,
        https_peer(review(denied=True)) as strict,
        trio.open_nursery() as nursery,
    ):
        made = configured(file(hook(str(open_.kubeconfig(tmp_path)))))
        (files,) = made.files
        nursery.start_soon(files.run)
        assert (await decide(made.authorizer)).allowed
        strict.kubeconfig(tmp_path)
        await until(lambda: files.counts["success"] == 1)
        assert (await decide(made.authorizer)).verdict is Verdict.DENY
        assert files.counts == {"success": 1, "failure": 0}
        nursery.cancel_scope.cancel()


async def test_a_request_that_waits_for_a_webhook_is_decided_by_the_configuration_it_began_with(
    tmp_path: Path, configured: Configured
) -> None:
    asked, reply = trio.Event(), trio.Event()

    async def wait(received: Received) -> Any:
        asked.set()
        await reply.wait()
        return Reply(400)

    decisions: list[Decision] = []
    async with https_peer(wait) as peer, trio.open_nursery() as nursery:
        text = file(hook(str(peer.kubeconfig(tmp_path))), ALLOW)
        made = configured(text)

        async def ask() -> None:
            decisions.append(await decide(made.authorizer))

        nursery.start_soon(ask)
        await asked.wait()
        await made.reload(file(ALLOW, DENY).encode())
        reply.set()
    assert [one.allowed for one in decisions] == [True]
