"""Events of the journal by time, type and namespace: counts per bucket of time, and the events themselves."""
