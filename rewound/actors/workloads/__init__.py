"""The controllers of workloads, as kube-controller-manager v1.25 has them: they make a cluster of stored objects.

Begin with `controller`, the base of all of them: `cache` has the decoded objects that they read, `recorder` writes
Events, `pods` knows what all controllers of pods share. `built_in` names the controllers that --controllers chooses.
"""
