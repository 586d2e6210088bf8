"""Simulated nodes: they register, renew their leases and run pods, without a machine (docs/nodes.md).

Begin with `simulator`, the controller of all nodes. It asks `admission` whether a node runs a pod, and `pod_status` for
the next status of a pod and the Events due; that uses `containers` (the life of one container), `images` and
`references` (what it may lack), `termination` (how containers end), `resources` (of a whole pod), and `behaviour` (what
annotations request). `node_status` has the status of a node,
`pressure` that of one that is short of memory or disk; `static_pods` reads manifests, `agent` serves logs and commands.
kwok's Stages may say what happens instead: `actors.stages`.
"""
