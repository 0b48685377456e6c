"""What decides in a simulation: optsched's own ways, and those of others, each a planner of the engine."""
