"""Each call that opens, writes, moves or deletes a file fails, in each operation."""
