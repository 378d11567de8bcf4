"""Other task queues on the same kind of server. Some modules run in environments without FlowFabric."""
