"""Controls for tests below /debug/rewound/, which `--enable-test-controls` adds (docs/testing.md)."""
