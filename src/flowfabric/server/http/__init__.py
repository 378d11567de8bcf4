"""HTTP itself: the transport, the gate that every request passes, routing, and reading and writing messages."""
