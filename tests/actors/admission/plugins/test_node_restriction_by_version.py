"""NodeRestriction of later versions: audiences of tokens, certificates, slices, owners, and what mirror pods need."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision
from rewound.actors.admission.plugins.node_restriction import NodeCredentials, NodeRestriction
from rewound.actors.errors import AdmissionFailed, Forbidden
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.background_import import imported
from rewound.actors.versions.features import choose_release
from tests.actors.admission.admitted import admitted
from tests.actors.admission.plugins.test_node_restriction import POD, written_by
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.test_pod_certificate_rules import KEY, request
from tests.actors.object_store import Store, open_store

RELEASE = choose_release("1.36", "PodCertificateRequest=true")


class Audiences:
    """Lets nodes request tokens for one audience."""

    def authorize(self, attributes: Attributes) -> Decision:
        return ALLOWED if attributes.resource == "free" else NO_OPINION


@cache
def definitions() -> Definitions:
    return Definitions(built_in(CLUSTER, RELEASE, Enablement(every=True)))


class Restricted:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._sync = NodeRestriction(CLUSTER, store.journal, RELEASE.features)
        self._async = NodeCredentials(CLUSTER, store.journal, Audiences(), RELEASE.features)  # type: ignore[arg-type]

    def why_not(
        self,
        plural: str,
        operation: str,
        new: Any,
        old: Any = None,
        subresource: str = "",
        *,
        name: str = "n1",
    ) -> str:
        definition = definitions()[plural]
        try:
            for plugin in (self._sync, self._async):
                admitted(
                    plugin,
                    definition,
                    operation,
                    new,
                    old,
                    subresource=subresource,
                    context=written_by(name),
                    namespace="default",
                )
        except Forbidden as error:
            return str(error).partition("is forbidden: ")[2]
        return ""


@asynccontextmanager
async def restricted() -> AsyncIterator[Restricted]:
    async with open_store() as store:
        yield Restricted(store)


async def test_tokens_are_for_audiences_of_volumes() -> None:
    async with restricted() as found:
        own = {"serviceAccountToken": {"audience": "own", "path": "t"}}
        volumes = [{"name": "t", "projected": {"sources": [own]}}, {"name": "d", "csi": {"driver": "d.io"}}]
        pod = await found.store.create(
            "pods", {"metadata": {"name": "p"}, "spec": {**POD, "volumes": volumes}}
        )
        bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}

        def why(*audiences: str) -> str:
            spec = {"audiences": list(audiences), "boundObjectRef": bound}
            return found.why_not("serviceaccounts", "CREATE", {"metadata": {}, "spec": spec}, None, "token")

        assert why("own") == ""
        assert why("own", "free") == "node may only request 0 or 1 audiences"
        missing = 'csidriver.storage.cluster.io "d.io" not found'
        assert why("other") == f'error validating audience "other": {missing}'
        driver = {"metadata": {"name": "d.io"}, "spec": {"tokenRequests": [{"audience": "of-driver"}]}}
        await found.store.create("csidrivers", driver)
        assert why("of-driver") == why("free") == ""
        refused = "not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"
        assert why("other") == f'audience "other" {refused}'
        assert why() == ""  # of the volume that every pod gets


async def test_pod_certificates_are_for_own_pods_as_they_are_now() -> None:
    async with restricted() as found:
        uids: dict[str, str] = {}
        for part, plural, name, spec in (
            ("node", "nodes", "n1", {}),
            ("serviceAccount", "serviceaccounts", "robot", None),
            ("pod", "pods", "p", {**POD, "serviceAccountName": "robot"}),
        ):
            document = {"metadata": {"name": name}, **({} if spec is None else {"spec": spec})}
            made = await found.store.create(plural, document)
            uids[f"{part}UID"] = made["metadata"]["uid"]

        def why(**changed: str) -> str:
            names = {"podName": "p", "nodeName": "n1", "serviceAccountName": "robot"}
            return found.why_not("podcertificaterequests", "CREATE", request(**{**names, **uids, **changed}))

        assert why() == ""
        assert why(nodeName="n2").endswith('NodeName="n2", which is not the requesting node "n1"')
        account = 'PodCertificateRequest for pod "default/p" contains serviceAccountName ("x")'
        assert why(serviceAccountName="x") == f'{account} that differs from running pod ("robot")'
        for changed in ({"podName": "q"}, {"podUID": "x"}, {"nodeUID": "x"}, {"serviceAccountUID": "x"}):
            with pytest.raises(AdmissionFailed):
                why(**changed)
        sent = request()
        assert found.why_not("podcertificaterequests", "UPDATE", sent, sent) == "unexpected operation UPDATE"


async def test_node_writes_only_its_own_parts() -> None:
    async with restricted() as found:
        node: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {}}
        owned = {**node, "metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}}
        why = found.why_not("nodes", "UPDATE", owned, node, name="a")
        assert why == 'node "a" is not allowed to modify ownerReferences'
        slices = {name: {"metadata": {"name": "a"}, "spec": {"nodeName": name}} for name in ("n1", "n2")}
        assert found.why_not("resourceslices", "CREATE", slices["n1"]) == ""
        why = found.why_not("resourceslices", "CREATE", slices["n2"])
        assert why == "can only create ResourceSlice with the same NodeName as the requesting node"
        pod = {"metadata": {"name": "a"}, "spec": POD, "status": {}}
        claimed = {**pod, "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "d"}]}}
        why = found.why_not("pods", "UPDATE", claimed, pod, "status")
        assert why == 'node "n1" cannot update resource claim statues'


async def test_mirror_pods_need_no_object_of_the_api() -> None:
    async with restricted() as found:
        node = await found.store.create("nodes", {"metadata": {"name": "n1"}, "spec": {}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": True}
        owner["uid"] = node["metadata"]["uid"]
        annotations = {"cluster.io/config.mirror": "x"}
        metadata = {"name": "a", "annotations": annotations, "ownerReferences": [owner]}

        def why(**spec: Any) -> str:
            refused = found.why_not("pods", "CREATE", {"metadata": metadata, "spec": {**POD, **spec}})
            return refused.partition("can not create pods that reference ")[2]

        assert why(volumes=[{"name": "h", "hostPath": {"path": "/x"}}]) == ""
        assert why(serviceAccountName="x") == "serviceaccounts"
        assert why(resourceClaims=[{"name": "c"}]) == "resourceclaims"
        assert why(volumes=[{"name": "d", "csi": {"driver": "d.io"}}]) == "csidrivers (via CSI volumes)"
        token = {"serviceAccountToken": {"path": "t"}}
        projected = [{"name": "t", "projected": {"sources": [{"downwardAPI": {}}, token]}}]
        assert why(volumes=projected) == "serviceaccounts (via projected volumes)"


async def test_node_certificates_have_the_name_of_the_node() -> None:
    await imported("cryptography.x509")
    async with restricted() as found:

        def why(common_name: str, signer: str = CLUSTER.node_client_signer) -> str:
            subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
            made = x509.CertificateSigningRequestBuilder(subject).sign(KEY, None)
            content = base64.b64encode(made.public_bytes(Encoding.PEM)).decode()
            spec = {"request": content, "signerName": signer}
            return found.why_not("certificatesigningrequests", "CREATE", {"metadata": {}, "spec": spec})

        assert why("system:node:n1") == why("system:node:n2", "example.com/other") == ""
        assert why("system:node:n2") == "can only create a node CSR with CN=system:node:n1"
