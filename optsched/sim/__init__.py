"""Simulated agents and the replay of scenarios, on the same engine that a service drives."""
