"""The scheduler, as kube-scheduler v1.25 is: it finds a node for every pod that has none.

Begin with `scheduler`, which follows pods and nodes, decides and writes. `queue` has the pods that wait, `nodes` and
`pods` what is known of each as numbers. `evaluation` tries nodes and compares them by plugins: `plugins` says what
one is and has those that look at one node, `resources`, `spread`, `pod_affinity` and `volumes` the others (`tally`
sums over topologies, `volume_objects` reads claims and volumes). `preemption` looks for pods that have to go.
`configuration` chooses the plugins.
"""
