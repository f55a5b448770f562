"""The task definition: text columns, labels, metric and decision."""
