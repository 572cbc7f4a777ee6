"""How conflicts between targets are resolved: priority, least cost, pins and bans."""
