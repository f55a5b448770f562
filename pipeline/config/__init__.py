"""The settings of a recipe, and paths and parameters that depend only on them."""
