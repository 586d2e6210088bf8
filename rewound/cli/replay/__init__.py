"""The command `rewound replay`: its flags, and the process that serves a recording."""
