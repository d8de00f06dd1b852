"""Train networks and heads by episodes."""
