"""Past runs: their records, lineage, comparison, and what is deleted of them."""
