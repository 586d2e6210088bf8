"""Clusters on this machine that run in the background: `rewound up`, `down`, `list`, `status` and `logs`.

`commands` has the commands, `cluster` a cluster with its folder, its files and its server, `server` the process that
runs in the background, and `load` the manifests of `up --load`. The kubeconfig file is changed by
`client.kubeconfig_edit`.
"""
