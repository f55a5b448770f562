"""What all packages share: the task, settings, metrics, records, errors and files.

It needs the standard library, NumPy and pydantic only.
"""
