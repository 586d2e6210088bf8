"""The commands about history: `rewound history`, `blame`, `rollback`, `undelete`, `at` and `why`.

They ask a server by a kubeconfig file, or with --data-dir read a data folder directly. `source` is what they need of
either; `server` and `folder` are the two.
"""
