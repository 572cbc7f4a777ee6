"""The names that TVMScript's prefix R stands for."""
