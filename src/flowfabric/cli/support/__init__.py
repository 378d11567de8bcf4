"""Arguments, output, exit codes and store access that several commands share."""
