"""What was run and what is served on this machine: lists, lineage, rollback, clean."""
