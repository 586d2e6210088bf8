"""The second twenty incidents, staged when the ranking was written."""

from __future__ import annotations

from tests.rewind.suspects.stage import NAMESPACE, Cause, Incident, Stage, Story, template

CRASH = {"sim/phase": "CrashLoop"}
PROBE = {"readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5}}


def network_policy(stage: Stage) -> Incident:
    stage.deployment("web", container=PROBE)
    stage.noise()
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Egress"]}
    stage.create("NetworkPolicy", "deny-egress", spec=spec)
    stage.noise(1)
    stage.misbehave("web", {"sim/fail-readiness": "0"})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("NetworkPolicy", "deny-egress"))


def autoscaler_without_requests(stage: Stage) -> Incident:
    requests = {"resources": {"requests": {"cpu": "100m"}}}
    stage.deployment("web", annotations={"sim/cpu": "50m"}, container=requests)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 4, "metrics": [metric]}
    stage.create("HorizontalPodAutoscaler", "web", spec=spec)
    stage.noise()
    stage.template("web", {"spec": {"containers": [{"name": "main", "resources": None}]}})
    stage.noise(2)
    return Incident("HorizontalPodAutoscaler", "web", Cause("Deployment", "web"))


def budget_blocks_drain(stage: Stage) -> Incident:
    stage.deployment("web")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    stage.create("PodDisruptionBudget", "web-budget", spec=spec)
    stage.noise()
    stage.change("PodDisruptionBudget", "web-budget", {"spec": {"minAvailable": 2}})
    stage.noise(1)
    name = stage.pods("web")[0]["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    response = stage.send("POST", stage.path("Pod", name, "eviction"), eviction)
    assert response.status_code == 429, response.text
    stage.advance(10)
    return Incident("Pod", name, Cause("PodDisruptionBudget", "web-budget"))


def stricter_definition(stage: Stage) -> Incident:
    def versions(size: dict[str, object]) -> list[dict[str, object]]:
        spec = {"type": "object", "properties": {"size": size, "note": {"type": "string"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return [{"name": "v1", "served": True, "storage": True, "schema": schema}]

    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    stage.create(
        "CustomResourceDefinition",
        "widgets.example.com",
        spec={
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": versions({"type": "integer"}),
        },
    )
    stage.advance(10)
    stage.create("Widget", "large", spec={"size": 50})
    stage.noise()
    limited = {"spec": {"versions": versions({"type": "integer", "maximum": 10})}}
    stage.change("CustomResourceDefinition", "widgets.example.com", limited)
    stage.noise(1)
    response = stage.patch("Widget", "large", {"spec": {"size": 60}})
    assert response.status_code == 422, response.text
    stage.advance(10)
    return Incident("Widget", "large", Cause("CustomResourceDefinition", "widgets.example.com"))


def deleted_node(stage: Stage) -> Incident:
    stage.deployment("web", replicas=3)
    stage.noise()
    pod = stage.pods("web")[0]
    stage.delete("Node", pod["spec"]["nodeName"])
    stage.advance(120)
    return Incident("Pod", pod["metadata"]["name"], Cause("Node", pod["spec"]["nodeName"]))


def job_deadline(stage: Stage) -> Incident:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}
    annotations = {"sim/phase": "Succeeded", "sim/run-for": "900"}
    template = {"metadata": {"annotations": annotations, "labels": {"app": "import"}}, "spec": pod}
    stage.create("Job", "import", spec={"template": template, "activeDeadlineSeconds": 3600})
    stage.noise()
    stage.change("Job", "import", {"spec": {"activeDeadlineSeconds": 240}})
    stage.noise(2)
    return Incident("Job", "import", Cause("Job", "import"))


def renamed_port(stage: Stage) -> Incident:
    stage.deployment("web", container={"ports": [{"name": "http", "containerPort": 8080}]})
    ports = [{"port": 80, "targetPort": "http"}]
    stage.create("Service", "web", spec={"selector": {"app": "web"}, "ports": ports})
    stage.noise()
    renamed = [{"$patch": "replace"}, {"name": "web", "containerPort": 8080}]
    stage.template("web", {"spec": {"containers": [{"name": "main", "ports": renamed}]}})
    stage.noise(1)
    return Incident("Service", "web", Cause("Deployment", "web"))


def immutable_selector(stage: Stage) -> Incident:
    stage.deployment("web")
    stage.noise()
    wrong = {"spec": {"selector": {"matchLabels": {"app": "web", "tier": "front"}}}}
    response = stage.patch("Deployment", "web", wrong)
    assert response.status_code == 422, response.text
    stage.noise(1)
    return Incident("Deployment", "web", Cause("Deployment", "web"))


def memory_pressure(stage: Stage) -> Incident:
    stage.deployment("web", replicas=3)
    stage.noise()
    pod = stage.pods("web")[0]
    stage.change("Node", pod["spec"]["nodeName"], {"metadata": {"annotations": {"sim/pressure": "memory"}}})
    stage.advance(60)
    return Incident("Pod", pod["metadata"]["name"], Cause("Node", pod["spec"]["nodeName"]))


def full_nodes(stage: Stage) -> Incident:
    stage.deployment("web", replicas=1, container={"resources": {"requests": {"cpu": "2"}}})
    stage.deployment("hog", replicas=1, container={"resources": {"requests": {"cpu": "4"}}})
    stage.noise()
    stage.change("Deployment", "hog", {"spec": {"replicas": 20}})
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 4}})
    stage.advance(60)
    pending = [one for one in stage.pods("web") if not one["spec"].get("nodeName")]
    return Incident("Pod", pending[0]["metadata"]["name"], Cause("Deployment", "hog"))


def pod_security(stage: Stage) -> Incident:
    stage.deployment("web")
    stage.noise()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    stage.change("Namespace", NAMESPACE, {"metadata": {"labels": labels}})
    stage.noise(1)
    stage.template("web", {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("Namespace", NAMESPACE))


def removed_runtime_class(stage: Stage) -> Incident:
    stage.create("RuntimeClass", "sandboxed", handler="gvisor")
    stage.deployment("web", runtimeClassName="sandboxed")
    stage.noise()
    stage.delete("RuntimeClass", "sandboxed")
    stage.noise(1)
    stage.change("Deployment", "web", {"spec": {"replicas": 4}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("RuntimeClass", "sandboxed"))


def removed_priority_class(stage: Stage) -> Incident:
    stage.create("PriorityClass", "gold", value=1000)
    stage.deployment("web", priorityClassName="gold")
    stage.noise()
    stage.delete("PriorityClass", "gold")
    stage.noise(1)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    return Incident("Deployment", "web", Cause("PriorityClass", "gold"))


def denying_policy(stage: Stage) -> Incident:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    validation = {"expression": "has(object.metadata.labels.team)", "message": "needs the label team"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    stage.create("ValidatingAdmissionPolicy", "team-label", spec=spec)
    stage.deployment("web")
    stage.noise()
    binding = {"policyName": "team-label", "validationActions": ["Deny"]}
    stage.create("ValidatingAdmissionPolicyBinding", "team-label-everywhere", spec=binding)
    stage.until_refused("Pod", template("probe")["spec"])
    stage.noise(1)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    return Incident("Deployment", "web", Cause("ValidatingAdmissionPolicyBinding", "team-label-everywhere"))


def removed_secret_key(stage: Stage) -> Incident:
    stage.create("Secret", "api-keys", stringData={"stripe": "a", "mail": "b"})
    reference = {"secretKeyRef": {"name": "api-keys", "key": "stripe"}}
    stage.deployment("web", container={"env": [{"name": "STRIPE", "valueFrom": reference}]})
    stage.noise()
    stage.change("Secret", "api-keys", {"data": {"stripe": None}})
    stage.noise(2)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    pods = [one for one in stage.pods("web") if one["status"]["phase"] == "Pending"]
    return Incident("Pod", pods[0]["metadata"]["name"], Cause("Secret", "api-keys"))


def removed_claim(stage: Stage) -> Incident:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stage.create("PersistentVolumeClaim", "data", spec=claim)
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    stage.deployment("db", replicas=1, volumes=volumes)
    stage.noise()
    stage.change("Deployment", "db", {"spec": {"replicas": 0}})
    stage.advance(30)
    stage.delete("PersistentVolumeClaim", "data")
    stage.noise(1)
    stage.change("Deployment", "db", {"spec": {"replicas": 1}})
    stage.advance(60)
    return Incident("Pod", stage.pods("db")[0]["metadata"]["name"], Cause("PersistentVolumeClaim", "data"))


def lost_node_label(stage: Stage) -> Incident:
    stage.change("Node", "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
    stage.deployment("web", nodeSelector={"disk": "ssd"})
    stage.noise()
    stage.change("Node", "node-1", {"metadata": {"labels": {"disk": None}}})
    stage.noise(1)
    stage.delete("Pod", stage.pods("web")[0]["metadata"]["name"])
    stage.advance(60)
    return Incident("Deployment", "web", Cause("Node", "node-1"))


def wrong_arguments(stage: Stage) -> Incident:
    container = {"name": "main", "image": "db:1", "args": ["--cache=1G"]}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    spec = {
        "replicas": 1,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template,
    }
    stage.create("StatefulSet", "db", spec=spec)
    stage.noise()
    wrong = {"containers": [{"name": "main", "args": ["--cahce=1G"]}]}
    stage.template("db", {"metadata": {"annotations": CRASH}, "spec": wrong}, "StatefulSet")
    stage.noise(1)
    return Incident("Pod", "db-0", Cause("StatefulSet", "db"))


def quota_of_requests(stage: Stage) -> Incident:
    stage.deployment("web")
    stage.noise()
    stage.create("ResourceQuota", "compute", spec={"hard": {"requests.cpu": "10"}})
    stage.noise(1)
    stage.template("web", {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}})
    stage.advance(60)
    return Incident("Deployment", "web", Cause("ResourceQuota", "compute"))


def emptied_role(stage: Stage) -> Incident:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}
    stage.create("ClusterRole", "operator", rules=[rule])
    stage.create("ServiceAccount", "worker")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"}
    subject = {"kind": "ServiceAccount", "name": "worker", "namespace": NAMESPACE}
    stage.create("ClusterRoleBinding", "worker-operates", roleRef=role, subjects=[subject])
    stage.deployment("web", serviceAccountName="worker")
    stage.noise()
    stage.change("ClusterRole", "operator", {"rules": [{**rule, "verbs": ["get", "list"]}]})
    stage.noise(1)
    user = "system:serviceaccount:shop:worker"
    response = stage.patch("ConfigMap", "flags", {"data": {"x": "y"}}, impersonate_user=user)
    assert response.status_code == 403, response.text
    stage.misbehave("web", CRASH)
    stage.advance(30)
    return Incident("Pod", stage.pods("web")[0]["metadata"]["name"], Cause("ClusterRole", "operator"))


STORIES: tuple[Story, ...] = (
    network_policy,
    autoscaler_without_requests,
    budget_blocks_drain,
    stricter_definition,
    deleted_node,
    job_deadline,
    renamed_port,
    immutable_selector,
    memory_pressure,
    full_nodes,
    pod_security,
    removed_runtime_class,
    removed_priority_class,
    denying_policy,
    removed_secret_key,
    removed_claim,
    lost_node_label,
    wrong_arguments,
    quota_of_requests,
    emptied_role,
)
