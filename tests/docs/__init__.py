"""What the documentation shows must run."""
