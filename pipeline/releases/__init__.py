"""What is served: rollback, override, and the journal of both."""
