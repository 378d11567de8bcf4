"""What all steps share: the workspace, groups of commands, leases, attempts, and endings."""
