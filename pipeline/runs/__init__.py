"""Past runs: their records, outputs, lineage and comparison."""
