"""What teams are owed, who goes first, and what stopping a job costs: pure functions of a snapshot."""
