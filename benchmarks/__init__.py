"""Side-by-side measurements; each script tells what it compares and how to run it."""
