"""The paper's tables and figures: the runs behind them, and the paper's numbers beside ours."""
