"""The paper's tables and figures: its rows, their runs, its numbers beside ours."""
