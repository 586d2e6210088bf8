"""What a kind declares: `definition` has all of it, the other modules what several kinds share."""
