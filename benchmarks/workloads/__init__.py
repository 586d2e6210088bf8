"""The work that is measured, one module per subject; `catalog` has them all in running order."""
