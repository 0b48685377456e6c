"""From a snapshot to a checked, priced, explained plan."""
