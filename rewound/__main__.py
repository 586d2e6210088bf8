"""`python -m rewound`: the command `rewound`."""

from rewound.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
