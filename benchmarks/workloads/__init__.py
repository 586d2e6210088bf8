"""The workloads, one module per subject; `catalog` lists them in the order in which they run."""
