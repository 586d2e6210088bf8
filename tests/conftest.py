"""What holds for all tests: no example of hypothesis is judged by how long it took."""

from hypothesis import settings

settings.register_profile("rewound", deadline=None)
settings.load_profile("rewound")
