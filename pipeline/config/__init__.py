"""The settings of a recipe, and what is derived from them alone."""
