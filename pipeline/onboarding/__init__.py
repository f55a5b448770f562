"""A project from a user's own data: guesses, inspection, and the files of `init`."""
