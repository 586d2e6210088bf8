"""Memory limits: `budget` of what requests may hold, `process` of the whole process."""
