"""Clusters on this machine that run in the background, of `rewound up`.

`commands` has the commands, `cluster` a cluster with its folder, its files and its server, `server` the process that
runs in the background, and `load` the manifests of `rewound up --load`. `client.kubeconfig_edit` changes the kubeconfig
file.
"""
