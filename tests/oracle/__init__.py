"""A second reading of models/formulation.md, by brute force: what the scheduler is held against.

facts   section 1: the data of a round, and what a plan changes
order   the order of the queue
shapes  what one job's placement must keep
rights  who has a right over whom
rules   section 3: one function per rule
worth   section 4: rows, bill and score
brute   section 2: every plan there is, and the best of them
rounds  seeded rounds, tiny ones for the brute force and small ones for comparing solvers

Nothing here knows a solver. It shares with the code that it judges only the values, and the policy's answers to "what
does a stop cost" and "what is a team entitled to".
"""
