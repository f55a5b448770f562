"""Decisions of people about the served version: rollback, override, and a journal."""
