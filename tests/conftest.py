"""Settings of all tests: hypothesis has no deadline, because no test may depend on how long an example takes."""

from hypothesis import settings

settings.register_profile("rewound", deadline=None)
settings.load_profile("rewound")
