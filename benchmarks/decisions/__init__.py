"""The measurements behind docs/decisions: `python -m benchmarks.decisions.NAME` prints the figures of one page."""
