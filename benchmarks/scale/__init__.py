"""What one machine holds, how each cost grows, and what several workers change: `python -m benchmarks.scale`.

`filled_journal` fills data folders below HTTP, `objects` measures servers on them, `watchers` thousands of watches,
`workers` one process beside several, `read_after_write` whether a read on another connection sees an acknowledged
write.
The figures are in docs/scaling.md; `benchmarks/simulate.py` reads them as the costs of its model.
"""
