"""Every operation: its command, its answer and the step that decides it, one module per area."""
