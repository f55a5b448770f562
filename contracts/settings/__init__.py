"""The sections of a recipe that several packages read."""
