"""The exported model: its graph, its signatures and its description."""
