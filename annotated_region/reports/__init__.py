"""Reports: the notes of a run as text, JSON and differences."""
