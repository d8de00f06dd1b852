"""The paper's network. Start with `network.py`."""
