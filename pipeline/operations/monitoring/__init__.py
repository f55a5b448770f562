"""Compares the requests of a server with the data that its model was made from."""
