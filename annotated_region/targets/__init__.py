"""What the project knows of a target: its backend, its rules and patterns, and what these see."""
