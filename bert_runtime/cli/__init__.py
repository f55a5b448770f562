"""The command line of the runtime: `bert-runtime`."""
