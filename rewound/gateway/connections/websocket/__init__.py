"""Watches over WebSockets: the handshake, and the control frames between events."""
