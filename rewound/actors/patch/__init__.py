"""JSON patch, merge patch and strategic merge patch, and field ownership: pure functions that know no kind by name."""
