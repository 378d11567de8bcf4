"""What the tests share: a clock, stores to open, and short names for common commands."""
