"""Finds events and versions for the commands of `rewound journal`."""
