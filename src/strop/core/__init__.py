"""What flows through Strop and what its parts promise. Numpy at most; no torch."""
