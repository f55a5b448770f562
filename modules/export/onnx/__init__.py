"""A pushed model as a folder that ONNX Runtime reads: `portable.folder`."""
