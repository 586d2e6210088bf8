"""Property tests of controllers: `rewound.explore` (docs/explore.md).

`explore` tries many runs with Hypothesis and shortens the failing one; `run` is one run: it decides at every request
who goes on, with the `faults` that it was given; `still_server` is a server whose journal depends only on its seed and
its requests; `parties` are the controllers with their clients, `invariants` what must hold, `end_state` what is
compared at the end.
"""
