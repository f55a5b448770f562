"""The settings of a recipe, and paths and parameters that depend on them alone."""
