"""CP-SAT models of a round: the exact one and admission, with their variables, constraints, objective and stages."""
