"""The paper's method, one idea a file."""
