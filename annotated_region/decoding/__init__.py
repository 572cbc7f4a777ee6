"""What a program needs to generate text with a compiled language model, step by step."""
