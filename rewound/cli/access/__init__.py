"""Commands about access, over `rewound.client`: kubeconfig, token, certificate, can-i and cluster-info."""
