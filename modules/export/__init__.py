"""The exported model: its signatures and its description."""
