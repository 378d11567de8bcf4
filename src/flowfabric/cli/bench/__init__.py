"""The measurement behind `ff bench`."""
