"""`rewound envtest`: the programs that controller-runtime's envtest starts, with Rewound behind them (docs/envtest.md).

Begin with `programs`, which envtest starts; these start `zygote` and `api_server`. `flags` knows every flag of
kube-apiserver v1.25. `cli.envtest` makes the folder for KUBEBUILDER_ASSETS.
"""
