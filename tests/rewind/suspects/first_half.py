"""The first twenty incidents: those with which the ranking was written."""

from __future__ import annotations

from tests.rewind.suspects.stage import Cause, Incident, Stage, Story

CRASH = {"sim/phase": "CrashLoop"}


def config_typo(stage: Stage) -> Incident:
    stage.create("ConfigMap", "web-config", data={"DATABASE_URL": "postgres://db:5432/shop"})
    stage.deployment("web", container={"envFrom": [{"configMapRef": {"name": "web-config"}}]})
    stage.noise()
    stage.change("ConfigMap", "web-config", {"data": {"DATABASE_URL": "postgers://db:5432/shop"}})
    stage.noise(1)
    stage.misbehave("web", CRASH)
    stage.noise(1)
    return Incident("Pod", stage.pods("web")[0]["metadata"]["name"], Cause("ConfigMap", "web-config"))


def removed_secret(stage: Stage) -> Incident:
    stage.create("Secret", "db-password", stringData={"password": "hunter2"})
    stage.deployment("web", volumes=_secret("db-password"), container=_mounted())
    stage.noise()
    stage.delete("Secret", "db-password")
    stage.noise(2)
    stage.template("web", {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}})
    stage.advance(120)
    return Incident("Deployment", "web", Cause("Secret", "db-password"))


def _secret(name: str) -> list[dict[str, object]]:
    return [{"name": "files", "secret": {"secretName": name}}]


def _mounted() -> dict[str, object]:
    return {"volumeMounts": [{"name": "files", "mountPath": "/files"}]}


def refusing_webhook(stage: Stage) -> Incident:
    stage.deployment("web")
    stage.noise()
    hook = {
        "name": "check.policy.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/check"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
    }
    stage.create("ValidatingWebhookConfiguration", "policy", webhooks=[hook])
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 4}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("ValidatingWebhookConfiguration", "policy"))


def small_quota(stage: Stage) -> Incident:
    stage.create("ResourceQuota", "limits", spec={"hard": {"pods": "20"}})
    stage.deployment("web")
    stage.noise()
    stage.change("ResourceQuota", "limits", {"spec": {"hard": {"pods": "3"}}})
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 5}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("ResourceQuota", "limits"))


def bad_node(stage: Stage) -> Incident:
    stage.deployment("web", replicas=3)
    stage.noise()
    pod = stage.pods("web")[0]
    stage.change("Node", pod["spec"]["nodeName"], {"metadata": {"annotations": {"sim/stopped": "true"}}})
    stage.advance(120)
    return Incident("Pod", pod["metadata"]["name"], Cause("Node", pod["spec"]["nodeName"]))


def wrong_image(stage: Stage) -> Incident:
    for number in range(3):
        bad = {"metadata": {"annotations": {"sim/bad-images": "*:v2-typo"}}}
        stage.change("Node", f"node-{number}", bad)
    stage.deployment("web")
    stage.noise()
    stage.template(
        "web", {"spec": {"containers": [{"name": "main", "image": "registry.example/app:v2-typo"}]}}
    )
    stage.noise(1)
    return Incident("Pod", stage.pods("web")[-1]["metadata"]["name"], Cause("Deployment", "web"))


def lost_role(stage: Stage) -> Incident:
    stage.create("ServiceAccount", "reader")
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}
    stage.create("Role", "reads-config", rules=[rule])
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads-config"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "shop"}
    stage.create("RoleBinding", "reader-reads", roleRef=role, subjects=[subject])
    stage.deployment("web", serviceAccountName="reader")
    stage.noise()
    stage.delete("RoleBinding", "reader-reads")
    stage.noise(1)
    response = stage.patch(
        "ConfigMap", "flags", {"data": {"x": "y"}}, impersonate_user="system:serviceaccount:shop:reader"
    )
    assert response.status_code == 403
    stage.misbehave("web", CRASH)
    stage.advance(30)
    return Incident("Deployment", "web", Cause("RoleBinding", "reader-reads"))


def fight(stage: Stage) -> Incident:
    stage.deployment("web", replicas=3)
    stage.noise()
    for _ in range(6):
        path = "?fieldManager=autoscaler"
        for replicas, user in ((6, "scaler"), (3, "gitops")):
            body = {"spec": {"replicas": replicas}}
            response = stage.send(
                "PATCH",
                stage.path("Deployment", "web") + path.replace("autoscaler", user),
                body,
                content_type="application/merge-patch+json",
                impersonate_user=user,
                impersonate_group="system:masters",
            )
            assert response.status_code == 200, response.text
        stage.advance(10)
    stage.misbehave("web", {"sim/phase": "NeverReady"})
    stage.advance(30)
    return Incident("Deployment", "web", Cause("Deployment", "web"))


def removed_storage_class(stage: Stage) -> Incident:
    stage.create("StorageClass", "fast", provisioner="example.com/disk")
    stage.noise()
    stage.delete("StorageClass", "fast")
    stage.noise(1)
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    stage.create("PersistentVolumeClaim", "data", spec=claim)
    stage.deployment(
        "db", replicas=1, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    )
    stage.advance(60)
    return Incident("Pod", stage.pods("db")[0]["metadata"]["name"], Cause("StorageClass", "fast"))


def limit_range(stage: Stage) -> Incident:
    stage.deployment(
        "web", container={"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}
    )
    stage.noise()
    limits = [{"type": "Container", "max": {"memory": "512Mi"}}]
    stage.create("LimitRange", "bounds", spec={"limits": limits})
    stage.noise(1)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    return Incident("Deployment", "web", Cause("LimitRange", "bounds"))


def preemption(stage: Stage) -> Incident:
    stage.create("PriorityClass", "urgent", value=100000)
    stage.deployment("web", replicas=3, container={"resources": {"requests": {"cpu": "10"}}})
    stage.noise()
    victims = {one["metadata"]["name"] for one in stage.pods("web")}
    stage.deployment(
        "batch", replicas=3, priorityClassName="urgent", container={"resources": {"requests": {"cpu": "12"}}}
    )
    stage.advance(60)
    gone = sorted(victims - {one["metadata"]["name"] for one in stage.pods("web")})
    return Incident("Pod", gone[0], Cause("Deployment", "batch"))


def resource_raise(stage: Stage) -> Incident:
    stage.deployment("web", container={"resources": {"requests": {"cpu": "1"}}})
    stage.noise()
    raised = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "40"}}}]}
    stage.template("web", {"spec": raised})
    stage.noise(1)
    return Incident("Pod", stage.pods("web")[-1]["metadata"]["name"], Cause("Deployment", "web"))


def taint(stage: Stage) -> Incident:
    stage.deployment("web", nodeSelector={"kubernetes.io/hostname": "node-1"})
    stage.noise()
    stage.change(
        "Node", "node-1", {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
    )
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 3}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("Node", "node-1"))


def cordon(stage: Stage) -> Incident:
    stage.deployment("web", nodeSelector={"kubernetes.io/hostname": "node-0"})
    stage.noise()
    stage.change("Node", "node-0", {"spec": {"unschedulable": True}})
    stage.noise(1)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    pending = [one for one in stage.pods("web") if not one["spec"].get("nodeName")]
    return Incident("Pod", pending[0]["metadata"]["name"], Cause("Node", "node-0"))


def selector_typo(stage: Stage) -> Incident:
    stage.deployment("web")
    stage.create("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    stage.noise()
    stage.change("Service", "web", {"spec": {"selector": {"app": "wbe"}}})
    stage.noise(1)
    return Incident("Service", "web", Cause("Service", "web"))


def probe_change(stage: Stage) -> Incident:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5}
    stage.deployment("web", container={"readinessProbe": probe})
    stage.noise()
    wrong = {"readinessProbe": {"httpGet": {"path": "/heathz", "port": 8080}}}
    annotations = {"sim/fail-readiness": "0"}  # the program does not know that path
    stage.template(
        "web", {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main", **wrong}]}}
    )
    stage.noise(1)
    return Incident("Deployment", "web", Cause("Deployment", "web"))


def deleted_account(stage: Stage) -> Incident:
    stage.create("ServiceAccount", "runner")
    stage.deployment("web", serviceAccountName="runner")
    stage.noise()
    stage.delete("ServiceAccount", "runner")
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 4}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("ServiceAccount", "runner"))


def suspended(stage: Stage) -> Incident:
    job = {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}
    }
    stage.create("CronJob", "report", spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": job}})
    stage.noise()
    stage.change("CronJob", "report", {"spec": {"suspend": True}})
    stage.noise()
    return Incident("CronJob", "report", Cause("CronJob", "report"))


def stuck_namespace(stage: Stage) -> Incident:
    stage.create("Namespace", "old")
    stage.create("ConfigMap", "plain", namespace="old", data={"a": "b"})
    stage.create("ConfigMap", "held", namespace="old", data={"a": "b"})
    stage.noise()
    finalizers = {"metadata": {"finalizers": ["example.com/archive"]}}
    stage.change("ConfigMap", "held", finalizers, namespace="old")
    stage.noise(1)
    stage.delete("Namespace", "old")
    stage.advance(60)
    return Incident("Namespace", "old", Cause("ConfigMap", "held", "old"))


def missing_key(stage: Stage) -> Incident:
    stage.create("ConfigMap", "settings", data={"LEVEL": "info", "PORT": "80"})
    reference = {"configMapKeyRef": {"name": "settings", "key": "LEVEL"}}
    stage.deployment("web", container={"env": [{"name": "LEVEL", "valueFrom": reference}]})
    stage.noise()
    stage.change("ConfigMap", "settings", {"data": {"LEVEL": None}})
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 3}})
    stage.advance(60)
    pods = [one for one in stage.pods("web") if one["status"]["phase"] == "Pending"]
    return Incident("Pod", pods[0]["metadata"]["name"], Cause("ConfigMap", "settings"))


STORIES: tuple[Story, ...] = (
    config_typo,
    removed_secret,
    refusing_webhook,
    small_quota,
    bad_node,
    wrong_image,
    lost_role,
    fight,
    removed_storage_class,
    limit_range,
    preemption,
    resource_raise,
    taint,
    cordon,
    selector_typo,
    probe_change,
    deleted_account,
    suspended,
    stuck_namespace,
    missing_key,
)
