"""Scripts that install, build and check; run from the checkout."""
