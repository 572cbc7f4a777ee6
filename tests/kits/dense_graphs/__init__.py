"""Dense small graphs of all that a backend claims: made, computed in float64, compared, shrunk."""
