"""The parts of `ff dev`: its worker process, its event output and its prompt."""
