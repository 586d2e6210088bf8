"""How processor time and memory of a server grow with what one user writes: `python -m benchmarks.attacks.growth`.

`documents` makes valid objects in which a list, map, string, number or expression grows; `known` has expressions, pairs
of lists and what other attacks found; `measured` runs a server that reports its holds; `trial` writes, reads and
deletes an object of each size; `judge` decides whether the growth is more than n log n.
"""
