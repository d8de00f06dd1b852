"""The paper's protocol."""
