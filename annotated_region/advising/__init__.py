"""Advice: what would change if a target claimed what it declines; found by placing again with that claim."""
