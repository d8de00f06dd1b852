"""Figures drawn from arrays, all in one style."""
