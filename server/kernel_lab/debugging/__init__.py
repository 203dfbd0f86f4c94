"""Looking at one case closely: what the debug page shows, and what leaves it as a file."""
