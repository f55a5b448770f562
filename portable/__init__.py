"""The pushed model as a folder for ONNX Runtime, read and run without TensorFlow."""
