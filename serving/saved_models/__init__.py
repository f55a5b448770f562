"""Serves SavedModels in processes of their own, over REST and gRPC."""
