"""Copies, and operators in parts, that prevent wrong results of OpenVINO 2026.4."""
