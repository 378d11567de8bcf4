"""Other task queues on the same kind of server. Modules here also run in environments that hold nothing of ours."""
