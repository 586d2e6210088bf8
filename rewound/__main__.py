"""`python -m rewound`: the command `rewound`."""

from rewound.gateway.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
