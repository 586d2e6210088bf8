"""PodSecurity over HTTP: pods refused, templates warned about, updates, labels of namespaces, exemptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import AdmissionSettings
from tests.gateway.api import ALICE, Api, ApiResponse, served
from tests.gateway.shared_server import shared

MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
HOST_NETWORK = "host namespaces (hostNetwork=true)"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def labels(domain: str = "cluster.io", **modes: str) -> dict[str, str]:
    return {f"pod-security.{domain}/{mode.replace('_', '-')}": level for mode, level in modes.items()}


async def add_namespace(api: Api, name: str, **modes: str) -> None:
    domain = "kubernetes.io" if api.settings.dialect == "kubernetes" else "cluster.io"
    await api.create("namespaces", {"metadata": {"name": name, "labels": labels(domain, **modes)}})


async def create(
    api: Api, namespace: str, body: dict[str, Any], plural: str = "pods", **more: Any
) -> ApiResponse:
    return await api.ask("POST", api.path(plural, namespace), body, **more)


async def patch(api: Api, path: str, body: dict[str, Any], headers: dict[str, str] = MERGE) -> ApiResponse:
    return await api.ask("PATCH", path, body, headers=headers)


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_pod_that_violates_the_enforced_level_is_refused(dialect: str) -> None:
    async with served(dialect=dialect) as api:
        await add_namespace(api, "ns", enforce="baseline", enforce_version="v1.20")
        refused = (await create(api, "ns", pod(hostNetwork=True))).expect(403)
        assert refused["reason"] == "Forbidden" and refused["details"] == {"name": "p", "kind": "pods"}
        text = f'violates PodSecurity "baseline:v1.20": {HOST_NETWORK}'
        assert refused["message"] == f'pods "p" is forbidden: {text}'
        generated = {**pod(hostNetwork=True), "metadata": {"generateName": "g-"}}
        refused = (await create(api, "ns", generated)).expect(403)
        name = refused["details"]["name"]
        assert len(name) == len("g-") + 5 and refused["message"] == f'pods "{name}" is forbidden: {text}'
        (await create(api, "ns", pod())).expect(201)
        (await create(api, "default", pod(hostNetwork=True))).expect(201)


async def test_large_pods_are_refused_too() -> None:
    """A worker thread handles them."""
    async with served() as api:
        await add_namespace(api, "ns", enforce="baseline")
        large = pod(hostNetwork=True)
        large["spec"]["containers"][0]["command"] = ["x" * 1000] * 70
        assert HOST_NETWORK in (await create(api, "ns", large)).expect(403)["message"]


async def test_warn_warns_about_pods_and_templates_and_enforce_never_refuses_templates() -> None:
    async with served() as api:
        await add_namespace(api, "ns", enforce="baseline", warn="restricted", warn_version="v1.0")
        root = 'runAsNonRoot != true (pod or container \\"c\\" must set securityContext.runAsNonRoot=true)'
        warned = await create(api, "ns", pod())
        warned.expect(201)
        assert warned.warnings == [f'299 - "would violate PodSecurity \\"restricted:v1.0\\": {root}"']
        refused = await create(api, "ns", pod("q", hostNetwork=True))
        assert (refused.status, refused.warnings) == (403, [])
        selector = {"matchLabels": {"a": "b"}}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostNetwork=True)["spec"]}
        once = {"spec": {**template["spec"], "restartPolicy": "Never"}}
        spec = {"selector": selector, "template": template}
        job = {"spec": {"template": once}}
        for plural, content in (
            ("podtemplates", {"template": template}),
            ("replicationcontrollers", {"spec": {"template": template}}),
            ("deployments", {"spec": spec}),
            ("replicasets", {"spec": spec}),
            ("daemonsets", {"spec": spec}),
            ("statefulsets", {"spec": {**spec, "serviceName": "s"}}),
            ("jobs", job),
            ("cronjobs", {"spec": {"schedule": "* * * * *", "jobTemplate": job}}),
        ):
            made = await create(api, "ns", {"metadata": {"name": "t"}, **content}, plural)
            made.expect(201)
            [text] = made.warnings
            assert (
                text == f'299 - "would violate PodSecurity \\"restricted:v1.0\\": {HOST_NETWORK}, {root}"'
            ), plural
        deployment = f"{api.path('deployments', 'ns')}/t"
        image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
        changed = await patch(api, deployment, image, STRATEGIC)
        assert (changed.status, len(changed.warnings)) == (200, 1)
        status = await patch(api, f"{deployment}/status", {"status": {"replicas": 1}})
        assert (status.status, status.warnings) == (200, [])


async def test_only_updates_that_change_what_a_check_reads_are_evaluated() -> None:
    async with served() as api:
        await add_namespace(api, "ns")
        (await create(api, "ns", pod(hostNetwork=True))).expect(201)
        (await create(api, "ns", pod("good"))).expect(201)
        tightened = await patch(
            api, "/api/v1/namespaces/ns", {"metadata": {"labels": labels(enforce="baseline")}}
        )
        existing = 'existing pods in namespace \\"ns\\" violate the new PodSecurity enforce level \\"baseline:latest\\"'
        assert tightened.warnings == [f'299 - "{existing}"', '299 - "p: host namespaces"']
        path = f"{api.path('pods', 'ns')}/p"
        (await patch(api, path, {"metadata": {"labels": {"a": "b"}}})).expect(200)
        (await patch(api, f"{path}/status", {"status": {"message": "m"}})).expect(200)
        image = {"spec": {"containers": [{"name": "c", "image": "j"}]}}
        assert HOST_NETWORK in (await patch(api, path, image, STRATEGIC)).expect(403)["message"]
        key = "container.seccomp.security.alpha.cluster.io/c"
        annotated = {"metadata": {"annotations": {key: "runtime/default"}}}
        assert HOST_NETWORK in (await patch(api, path, annotated)).expect(403)["message"]
        debug = {"name": "d", "image": "i", "securityContext": {"privileged": True}}
        good = f"{api.path('pods', 'ns')}/good/ephemeralcontainers"
        added = {"spec": {"ephemeralContainers": [debug]}}
        refused = (await patch(api, good, added, STRATEGIC)).expect(403)
        detail = 'privileged (container "d" must not set securityContext.privileged=true)'
        assert (
            refused["message"]
            == f'pods "good" is forbidden: violates PodSecurity "baseline:latest": {detail}'
        )
        del debug["securityContext"]
        (await patch(api, good, added, STRATEGIC)).expect(200)
        (await api.ask("DELETE", path)).expect(200)


async def test_without_its_namespace_a_pod_is_refused_and_a_template_is_not() -> None:
    async with served(disable_admission_plugins="NamespaceLifecycle,ServiceAccount") as api:
        refused = (await create(api, "missing", pod())).expect(404)
        assert refused["message"] == 'namespaces "missing" not found'
        template = {"metadata": {"name": "t"}, "template": {"spec": pod()["spec"]}}
        (await create(api, "missing", template, "podtemplates")).expect(201)


async def test_labels_that_are_not_a_policy_are_refused() -> None:
    async with shared() as api:
        wrong = labels(enforce="zzz", warn_version="1.25")
        refused = (
            await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a", "labels": wrong}})
        ).expect(422)
        causes = [
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "zzz": must be one of privileged, baseline, restricted',
                "field": "metadata.labels[pod-security.cluster.io/enforce]",
            },
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "1.25": must be "latest" or "v1.x"',
                "field": "metadata.labels[pod-security.cluster.io/warn-version]",
            },
        ]
        assert refused["details"] == {"name": "a", "kind": "Namespace", "causes": causes}
        refused = (await patch(api, "/api/v1/namespaces/default", {"metadata": {"labels": wrong}})).expect(
            422
        )
        assert refused["message"].startswith('Namespace "default" is invalid: [metadata.labels[pod-security.')


async def test_wrong_labels_from_before_count_as_restricted_and_can_stay() -> None:
    async with served(disable_admission_plugins="PodSecurity") as api:
        path = "/api/v1/namespaces/default"
        (await patch(api, path, {"metadata": {"labels": labels(enforce="zzz")}})).expect(200)
        await api.restart(disable_admission_plugins="")
        (await patch(api, path, {"metadata": {"labels": {"a": "b"}}})).expect(200)
        message = (await create(api, "default", pod())).expect(403)["message"]
        assert message.startswith('pods "p" is forbidden: violates PodSecurity "restricted:latest": ')
        (await patch(api, path, {"metadata": {"labels": labels(warn="yyy")}})).expect(422)
        counted = 'fatal="false",request_operation="create",resource="pod",subresource=""'
        metrics = (await api.ask("GET", "/metrics")).text.splitlines()
        assert f"pod_security_errors_total{{{counted}}} 1" in metrics


def written(folder: Path, configuration: dict[str, Any]) -> AdmissionSettings:
    file = folder / "admission.yaml"
    group = "pod-security.admission.config.cluster.io"
    given = {"apiVersion": f"{group}/v1", "kind": "PodSecurityConfiguration", **configuration}
    plugins = [{"name": "PodSecurity", "configuration": given}]
    document = {
        "apiVersion": "apiserver.config.cluster.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    }
    file.write_text(yaml.safe_dump(document))
    return AdmissionSettings(admission_control_config_file=file)


async def test_defaults_and_exemptions_of_the_configuration(tmp_path: Path) -> None:
    exemptions = {"usernames": ["alice"], "namespaces": ["system"], "runtimeClasses": ["sandboxed"]}
    configuration = written(tmp_path, {"defaults": {"enforce": "baseline"}, "exemptions": exemptions})
    async with served(admission=configuration, authorization_mode="AlwaysAllow", anonymous_auth=False) as api:
        bad = pod(hostNetwork=True)
        assert HOST_NETWORK in (await create(api, "default", bad)).expect(403)["message"]
        (await create(api, "default", bad, token=ALICE)).expect(201)
        await api.create("runtimeclasses", {"metadata": {"name": "sandboxed"}, "handler": "h"})
        (await create(api, "default", pod("s", hostNetwork=True, runtimeClassName="sandboxed"))).expect(201)
        modes = labels(enforce="restricted", warn="baseline")
        made = await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "system", "labels": modes}})
        policy = "enforce=restricted:latest, warn=baseline:latest"
        assert made.warnings == [
            f'299 - "namespace \\"system\\" is exempt from Pod Security, and the policy ({policy}) will be ignored"'
        ]
        exempt = await create(api, "system", bad)
        assert (exempt.status, exempt.warnings) == (201, [])
        await add_namespace(api, "open", enforce="privileged")
        (await create(api, "open", bad)).expect(201)


async def test_start_fails_with_a_wrong_configuration(tmp_path: Path) -> None:
    configuration = written(tmp_path, {"defaults": {"enforce": "zzz"}})
    with pytest.raises(BaseExceptionGroup) as failed:
        async with served(admission=configuration):
            pass
    found = failed.value.subgroup(SettingsError)
    assert found is not None
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    text = "plugins[0].configuration.defaults.enforce: must be one of privileged, baseline, restricted"
    assert str(found).endswith(text) and "--admission-control-config-file" in str(found)


async def test_metrics_count_evaluations_exemptions_and_errors(tmp_path: Path) -> None:
    configuration = written(tmp_path, {"exemptions": {"namespaces": ["exempt"]}})
    async with served(admission=configuration) as api:
        await add_namespace(
            api, "ns", enforce="baseline", enforce_version="v1.99", warn="restricted", audit="baseline"
        )
        await add_namespace(api, "exempt")
        for namespace in ("default", "ns", "exempt"):
            (await create(api, namespace, pod())).expect(201)
        (await create(api, "ns", pod("q", hostNetwork=True))).expect(403)
        counted = {
            line
            for line in (await api.ask("GET", "/metrics")).text.splitlines()
            if line.startswith("pod_security_") and "_created" not in line
        }
        of_request = 'request_operation="create",resource="pod",subresource=""'

        def evaluations(decision: str, level: str, version: str, mode: str) -> str:
            labels = f'decision="{decision}",mode="{mode}",policy_level="{level}",policy_version="{version}"'
            return f"pod_security_evaluations_total{{{labels},{of_request}}} 1"

        assert counted == {
            evaluations("allow", "privileged", "latest", "enforce"),
            evaluations("allow", "baseline", "future", "enforce"),
            evaluations("deny", "restricted", "latest", "warn"),
            evaluations("deny", "baseline", "future", "enforce"),
            evaluations("deny", "baseline", "latest", "audit"),
            f"pod_security_exemptions_total{{{of_request}}} 1",
        }
