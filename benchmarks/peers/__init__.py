"""The processes that `benchmarks.rounds` measures."""
