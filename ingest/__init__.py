"""From a user's file to Examples."""
