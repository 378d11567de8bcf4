"""The engine over HTTP."""
