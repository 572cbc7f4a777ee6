"""Conflict resolution between targets: priority, least cost, pins and bans."""
