"""The exact model of a round for CP-SAT: variables, constraints, objective, stages."""
