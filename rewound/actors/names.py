"""Every domain name that the server uses, in two dialects. No other module contains one.

A data folder keeps its dialect for ever. `cluster` is the neutral form (cluster.io, cluster-system); `kubernetes` is
what unmodified Kubernetes clients expect (k8s.io / kubernetes.io, kube-system). Kinds and rules are declared against
a `Names`, so both dialects run the same code; differences in behaviour are in `actors.profile`:

    names = NAMES["kubernetes"]
    names.group("coordination")          -> "coordination.k8s.io"
    names.key("metadata.name")           -> "kubernetes.io/metadata.name"
    names.key("service-account.name")    -> "kubernetes.io/service-account.name"
"""

from __future__ import annotations

import msgspec

REWIND_GROUP = "rewound.cluster.io"  # the API group of history, blame and rollback: the same in both dialects


class Names(msgspec.Struct, frozen=True):
    dialect: str
    group_domain: str  # API groups, e.g. storage.<group_domain>
    key_domain: str  # labels, annotations, finalizers, types
    system_namespace: str
    public_namespace: str
    node_lease_namespace: str
    media_type: str  # the protobuf media type
    extension_prefix: str  # OpenAPI markers
    url_type: str  # the name of the URL type in CEL
    # Prefix of the volume with a service account token, without the dash and the random suffix.
    api_access: str
    root_certificate: str  # the ConfigMap with the CA certificate of this server
    # The built-in signers of certificates.
    client_signer: str
    node_client_signer: str
    serving_signer: str
    legacy_signer: str
    exec_info_variable: str  # the environment variable with the input of a credential plugin
    secret_token_issuer: str  # the claim `iss` of service account tokens in Secrets
    server_manager: str  # the field manager of writes by the server itself
    # The Service of this server in the namespace default has the same name in both dialects.
    api_service: str = "kubernetes"
    service_domain: str = "cluster.local"  # the domain of the DNS names of Services

    def group(self, prefix: str) -> str:
        """Return the API group `prefix.<domain>`; the meta group is group("meta")."""
        return f"{prefix}.{self.group_domain}"

    def key(self, suffix: str, prefix: str = "") -> str:
        """Return a label or annotation key, a type or a signer: `[prefix.]<domain>/suffix`."""
        return f"{prefix}.{self.key_domain}/{suffix}" if prefix else f"{self.key_domain}/{suffix}"


CLUSTER = Names(
    dialect="cluster",
    group_domain="cluster.io",
    key_domain="cluster.io",
    system_namespace="cluster-system",
    public_namespace="cluster-public",
    node_lease_namespace="cluster-node-lease",
    media_type="application/vnd.cluster.protobuf",
    extension_prefix="x-cluster-",
    url_type="cluster.URL",
    api_access="cluster-api-access",
    root_certificate="cluster-root-ca.crt",
    client_signer="cluster.io/api-server-client",
    node_client_signer="cluster.io/api-server-client-node-agent",
    serving_signer="cluster.io/node-agent-serving",
    legacy_signer="cluster.io/legacy-unknown",
    exec_info_variable="CLUSTER_EXEC_INFO",
    secret_token_issuer="cluster/serviceaccount",
    server_manager="apiserver",
)
KUBERNETES = Names(
    dialect="kubernetes",
    group_domain="k8s.io",
    key_domain="kubernetes.io",
    system_namespace="kube-system",
    public_namespace="kube-public",
    node_lease_namespace="kube-node-lease",
    media_type="application/vnd.kubernetes.protobuf",
    extension_prefix="x-kubernetes-",
    url_type="kubernetes.URL",
    api_access="kube-api-access",
    root_certificate="kube-root-ca.crt",
    client_signer="kubernetes.io/kube-apiserver-client",
    node_client_signer="kubernetes.io/kube-apiserver-client-kubelet",
    serving_signer="kubernetes.io/kubelet-serving",
    legacy_signer="kubernetes.io/legacy-unknown",
    exec_info_variable="KUBERNETES_EXEC_INFO",
    secret_token_issuer="kubernetes/serviceaccount",
    server_manager="kube-apiserver",
)
NAMES = {names.dialect: names for names in (CLUSTER, KUBERNETES)}
