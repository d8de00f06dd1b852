"""One HTML page about what runs have learned."""
