"""Simulated nodes: they register, renew their leases and run pods, without a machine (docs/nodes.md).

Begin with `simulator`, the controller of all nodes. `pod_status` computes a pod's status at a moment, `behaviour` reads
its annotations, `node_status` has the status of a node; `agent` serves logs and commands. kwok's Stages may say what
happens instead: `actors.stages`.
"""
