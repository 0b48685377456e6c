"""Solvers: a round problem in, an assignment out. The only package that knows ortools."""
