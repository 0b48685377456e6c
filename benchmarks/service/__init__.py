"""What it takes to load the service: the scheduler as a process, and agents that are fakes on real streams."""
