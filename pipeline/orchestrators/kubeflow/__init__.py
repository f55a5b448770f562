"""The compiler, the client and the login of Kubeflow Pipelines."""
