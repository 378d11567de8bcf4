"""FlowFabric."""
