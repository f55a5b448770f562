"""The compiler and the client of Vertex AI Pipelines."""
