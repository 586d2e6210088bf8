"""Commands about access, over `gateway.client`: kubeconfig, token, certificate, can-i and cluster-info."""
