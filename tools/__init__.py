"""What builds and checks the container image; run from the checkout."""
