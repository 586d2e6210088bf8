"""One valid object of every kind, by plural name and version.

The objects have many fields with an enum or with required members, so that tests can make them invalid.
"""

from __future__ import annotations

import base64
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names

Object = dict[str, Any]

LABELS = {"app": "web"}
SELECTOR = {
    "matchLabels": LABELS,
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}],
}
SHOP_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                "n": {"type": "integer", "minimum": 0, "maximum": 9.5},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
        },
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}
POD_SPEC: Object = {
    "serviceAccountName": "default",
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "volumeMounts": [{"name": "config", "mountPath": "/config", "mountPropagation": "None"}],
            "volumeDevices": [{"name": "block", "devicePath": "/dev/block"}],
            "livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTP", "path": "/"}},
            "readinessProbe": {"tcpSocket": {"port": 80}},
            "startupProbe": {"grpc": {"port": 80}},
            "lifecycle": {
                "preStop": {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-A", "value": "1"}]}}
            },
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        }
    ],
    "volumes": [
        {"name": "config", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        {"name": "block", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "host", "hostPath": {"path": "/data", "type": "Directory"}},
        {"name": "nfs", "nfs": {"server": "files", "path": "/"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token"}},
                    {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]
            },
        },
        {"name": "driver", "csi": {"driver": "driver.example.com"}},
        {"name": "flex", "flexVolume": {"driver": "example.com/flex"}},
        {
            "name": "iscsi",
            "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:s", "lun": 0},
        },
    ],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                }
            ],
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"labelSelector": SELECTOR, "topologyKey": "zone"}}
            ]
        },
    },
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "preemptionPolicy": "PreemptLowerPriority",
}
TEMPLATE = {"metadata": {"labels": {**LABELS, "tier": "front"}}, "spec": POD_SPEC}
JOB_SPEC: Object = {
    "completionMode": "NonIndexed",
    "template": {
        "metadata": {},
        "spec": {**POD_SPEC, "restartPolicy": "Never"},
    },
}
WEBHOOK: Object = {
    "name": "a.example.com",
    "clientConfig": {"service": {"namespace": "ns", "name": "hook"}},
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
}
CLAIM_SPEC: Object = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "volumeMode": "Filesystem",
    "dataSource": {"kind": "PersistentVolumeClaim", "name": "old"},
    "selector": SELECTOR,
}
FLOW: Object = {
    "priorityLevelConfiguration": {"name": "low"},
    "distinguisherMethod": {"type": "ByUser"},
    "rules": [
        {
            "subjects": [
                {"kind": "User", "user": {"name": "u"}},
                {"kind": "Group", "group": {"name": "g"}},
                {"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "a"}},
            ],
            "resourceRules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["ns"]}
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/livez"]}],
        }
    ],
}
LEVEL: Object = {
    "type": "Limited",
    "limited": {
        "assuredConcurrencyShares": 5,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}},
    },
}
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
METRICS: list[Object] = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
    },
    {
        "type": "Pods",
        "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    },
    {
        "type": "Object",
        "object": {
            "metric": {"name": "hits"},
            "describedObject": {"kind": "Service", "name": "web", "apiVersion": "v1"},
            "target": {"type": "Value", "value": "5"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}},
]
AUTOSCALER: Object = {
    "scaleTargetRef": TARGET,
    "maxReplicas": 3,
    "metrics": METRICS,
    "behavior": {
        "scaleDown": {
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        }
    },
}


def _request() -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def _role_ref(names: Names, kind: str) -> Object:
    return {"apiGroup": names.group("rbac.authorization"), "kind": kind, "name": "r"}


def _subjects(names: Names) -> list[Object]:
    return [
        {"kind": "User", "apiGroup": names.group("rbac.authorization"), "name": "u"},
        {"kind": "ServiceAccount", "namespace": "ns", "name": "a"},
    ]


def specimens(names: Names) -> dict[str, Object]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    replicas = {"selector": SELECTOR, "template": TEMPLATE}
    return {
        # core
        "bindings/v1": {"target": {"kind": "Node", "name": "n"}},
        "configmaps/v1": {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}, "immutable": True},
        "endpoints/v1": {
            "subsets": [
                {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP", "name": "web"}]}
            ]
        },
        "events/v1": {"involvedObject": {"kind": "Pod", "namespace": "ns", "name": "web"}, "type": "Normal"},
        "limitranges/v1": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
        "namespaces/v1": {"spec": {"finalizers": ["kubernetes"]}},
        "nodes/v1": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        "persistentvolumeclaims/v1": {"spec": CLAIM_SPEC},
        "persistentvolumes/v1": {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": "/data"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                        ]
                    }
                },
            }
        },
        "pods/v1": {"spec": POD_SPEC},
        "podtemplates/v1": {"template": TEMPLATE},
        "replicationcontrollers/v1": {"spec": {"selector": LABELS, "template": TEMPLATE}},
        "resourcequotas/v1": {
            "spec": {
                "hard": {"pods": "1"},
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            }
        },
        "secrets/v1": {"type": "Opaque", "data": {"a": "YQ=="}},
        "serviceaccounts/v1": {"automountServiceAccountToken": True, "imagePullSecrets": [{"name": "s"}]},
        "services/v1": {
            "spec": {
                "type": "LoadBalancer",
                "selector": LABELS,
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}],
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
                "ipFamilyPolicy": "SingleStack",
                "sessionAffinity": "None",
            }
        },
        # apps
        "controllerrevisions/v1": {"revision": 1, "data": {"a": 1}},
        "daemonsets/v1": {"spec": {**replicas, "updateStrategy": {"type": "OnDelete"}}},
        "deployments/v1": {"spec": {**replicas, "strategy": {"type": "Recreate"}}},
        "replicasets/v1": {"spec": replicas},
        "statefulsets/v1": {
            "spec": {
                **replicas,
                "serviceName": "web",
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "volumeClaimTemplates": [
                    {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
                ],
            }
        },
        # autoscaling
        "horizontalpodautoscalers/v1": {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}},
        "horizontalpodautoscalers/v2": {"spec": AUTOSCALER},
        "horizontalpodautoscalers/v2beta2": {"spec": AUTOSCALER},
        # batch
        "jobs/v1": {"spec": JOB_SPEC},
        "cronjobs/v1": {
            "spec": {
                "schedule": "0 1 * * *",
                "concurrencyPolicy": "Forbid",
                "jobTemplate": {"spec": JOB_SPEC},
            }
        },
        # networking
        "ingressclasses/v1": {
            "spec": {
                "controller": "example.com/controller",
                "parameters": {"kind": "Config", "name": "a", "scope": "Cluster"},
            }
        },
        "ingresses/v1": {
            "spec": {
                "rules": [
                    {
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                },
                                {
                                    "path": "/r",
                                    "pathType": "Exact",
                                    "backend": {"resource": {"kind": "Bucket", "name": "b"}},
                                },
                            ]
                        }
                    }
                ]
            }
        },
        "networkpolicies/v1": {
            "spec": {
                "podSelector": SELECTOR,
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                        "ports": [{"port": 80, "protocol": "TCP"}],
                    }
                ],
            }
        },
        # policy
        "poddisruptionbudgets/v1": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
        "podsecuritypolicies/v1beta1": {
            "spec": {
                "seLinux": {"rule": "RunAsAny"},
                "runAsUser": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 2}]},
                "runAsGroup": {"rule": "RunAsAny"},
                "supplementalGroups": {"rule": "MustRunAs", "ranges": [{"min": 1, "max": 2}]},
                "fsGroup": {"rule": "RunAsAny"},
                "hostPorts": [{"min": 80, "max": 90}],
                "allowedFlexVolumes": [{"driver": "a/b"}],
                "allowedCSIDrivers": [{"name": "driver.example.com"}],
            }
        },
        # rbac
        "clusterroles/v1": {
            "rules": [*rules, {"verbs": ["get"], "nonResourceURLs": ["/livez"]}],
        },
        "roles/v1": {"rules": rules},
        "clusterrolebindings/v1": {"roleRef": _role_ref(names, "ClusterRole"), "subjects": _subjects(names)},
        "rolebindings/v1": {"roleRef": _role_ref(names, "Role"), "subjects": _subjects(names)},
        # storage
        "csidrivers/v1": {
            "spec": {"fsGroupPolicy": "File", "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}]}
        },
        "csinodes/v1": {"spec": {"drivers": [{"name": "driver.example.com", "nodeID": "n"}]}},
        "csistoragecapacities/v1": {"storageClassName": "fast"},
        "csistoragecapacities/v1beta1": {"storageClassName": "fast"},
        "storageclasses/v1": {
            "provisioner": "example.com/disks",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        },
        "volumeattachments/v1": {
            "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
        },
        # the rest
        "customresourcedefinitions/v1": {
            "spec": {
                "group": "example.com",
                "names": {"plural": "shops", "kind": "Shop"},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": SHOP_SCHEMA},
                        "subresources": {
                            "status": {},
                            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                        },
                        "additionalPrinterColumns": [
                            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}
                        ],
                    }
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"service": {"namespace": "ns", "name": "converter"}},
                        "conversionReviewVersions": ["v1"],
                    },
                },
            }
        },
        "apiservices/v1": {
            "spec": {
                "group": "example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"namespace": "ns", "name": "api"},
            }
        },
        "certificatesigningrequests/v1": {
            "spec": {"request": _request(), "signerName": "example.com/signer", "usages": ["client auth"]}
        },
        "events.new/v1": {
            "eventTime": "2024-01-02T03:04:05.000000Z",
            "type": "Normal",
            "action": "Started",
            "reason": "Started",
            "reportingController": "example.com/c",
            "reportingInstance": "c-1",
            "regarding": {"namespace": "ns"},
            "series": {"count": 2, "lastObservedTime": "2024-01-02T03:04:05.000000Z"},
        },
        "endpointslices/v1": {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}]}}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        },
        "flowschemas/v1beta1": {"spec": FLOW},
        "flowschemas/v1beta2": {"spec": FLOW},
        "leases/v1": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}},
        "mutatingwebhookconfigurations/v1": {
            "webhooks": [{**WEBHOOK, "reinvocationPolicy": "Never", "failurePolicy": "Fail"}]
        },
        "validatingwebhookconfigurations/v1": {"webhooks": [{**WEBHOOK, "matchPolicy": "Exact"}]},
        "priorityclasses/v1": {"value": 1, "preemptionPolicy": "Never"},
        "prioritylevelconfigurations/v1beta1": {"spec": LEVEL},
        "prioritylevelconfigurations/v1beta2": {"spec": LEVEL},
        "runtimeclasses/v1": {
            "handler": "fast",
            "scheduling": {"tolerations": [{"key": "a", "operator": "Exists"}]},
        },
        # reviews
        "tokenreviews/v1": {"spec": {"token": "t"}},
        "subjectaccessreviews/v1": {
            "spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}
        },
        "localsubjectaccessreviews/v1": {
            "spec": {
                "user": "u",
                "resourceAttributes": {"namespace": "ns", "verb": "get", "resource": "pods"},
            }
        },
        "selfsubjectaccessreviews/v1": {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}},
        "selfsubjectrulesreviews/v1": {"spec": {"namespace": "ns"}},
    }


def key(definition: Definition) -> str:
    new = definition.plural == "events" and definition.group
    return f"{definition.plural}{'.new' if new else ''}/{definition.version}"
