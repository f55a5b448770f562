"""The versions of a pushed model: their files, description and digest."""
