"""Side-by-side measurements; see benchmarks/README.md."""
