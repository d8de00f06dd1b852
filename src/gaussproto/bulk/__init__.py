"""Embed or classify many images: list them, read them on all cores, run the network, and write finished parts."""
