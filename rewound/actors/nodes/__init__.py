"""Simulated nodes: they register, renew their leases and run pods, without a machine (docs/nodes.md).

Begin with `simulator`, the controller of all nodes. `pod_status` says what a pod's status is at a moment, `behaviour`
what its annotations ask for, `node_status` what a node reports; `stages`, with `jq` and `templates`, plays the Stage
objects of kwok instead; `agent` answers requests for logs and commands.
"""
