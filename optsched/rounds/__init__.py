"""One scheduling round: its data, its rules, the checker and the score. Knows no solver."""
