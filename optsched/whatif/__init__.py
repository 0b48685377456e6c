"""What-if questions: scenarios over a snapshot, the next round of each, and bands of starts over many futures."""
