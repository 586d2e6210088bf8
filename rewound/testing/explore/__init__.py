"""Property tests of controllers: `rewound.explore` (docs/explore.md).

`explore` tries many runs with Hypothesis and shortens the failing one. `run` is one run: it decides at every request
which party goes on, and applies its `faults`. `still_server` is a server whose journal depends only on its seed and its
requests; `parties` are the controllers and the test, with their clients; `invariants` are checked at every version, and
`end_state` is compared at the end.
"""
