"""Property tests of controllers: `rewound.explore` (docs/explore.md).

`explore` tries many runs with Hypothesis and makes the failing one short; `run` is one run: it decides at every request
who goes on, with the `faults` that it was given; `server` is a server whose journal depends on nothing but its seed and
its requests; `parties` are the controllers with their clients, `invariants` what must hold, `end_state` what is
compared at the end.
"""
