"""The exact and the coarse model of a round for CP-SAT: variables, constraints, objective, stages."""
