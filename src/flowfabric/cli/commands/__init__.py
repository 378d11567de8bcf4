"""The commands of `ff`, one module each, named as the command is typed."""
