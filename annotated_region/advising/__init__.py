"""Advice: the effect on the placement if a target claimed ops that it declines, found by placing again."""
