"""The workload controllers of kube-controller-manager v1.25.

Begin with `controller`, their base class: `cache` has the decoded objects that they read, `recorder` writes Events,
`pods` is shared by all controllers of pods. `built_in` lists the controllers that --controllers can select.
"""
