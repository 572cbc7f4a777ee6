"""The findings of passes about each function, as values and in words, for reports and pictures."""
