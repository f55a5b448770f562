"""What was run and what is live: runs, releases, cleaning, monitoring, the web view."""
