"""The paper's tables and figures again: what it reports, the runs that answer, and the two side by side."""
