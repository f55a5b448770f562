"""What is measured: a script each, run by `benchmarks.rounds`."""
