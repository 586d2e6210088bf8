"""The scheduler, modelled on kube-scheduler v1.25: it finds a node for every pod that has none.

Begin with `scheduler`, which follows pods and nodes, decides and writes. `queue` has the waiting pods, `nodes` and
`pods` the facts about each as numbers. `evaluation` filters and scores nodes by plugins: `plugins` defines them and has
those that check a single node, `resources`, `spread`, `pod_affinity` and `volumes` the others (`tally` sums over
topologies, `volume_objects` reads claims and volumes). `preemption` finds pods to evict. `configuration` chooses the
plugins.
"""
