"""The compiler, the client and the server address of Kubeflow Pipelines."""
