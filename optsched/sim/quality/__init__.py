"""How good placements are: rounds with the best known plan and a proven bound, and what judges any plan by them."""
