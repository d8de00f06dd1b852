"""Draw figures from arrays, all in one style."""
