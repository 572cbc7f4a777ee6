"""What the passes noted while they ran, and what people read of it."""
