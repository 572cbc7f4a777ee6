"""What passes found out of each function, as values and in words: what reports and pictures are made of."""
