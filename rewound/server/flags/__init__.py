"""The flags of `rewound serve`: `sections` has them by part of the server, `parser` makes settings of them."""
