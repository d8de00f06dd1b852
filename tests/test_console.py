"""Progress where nobody watches a terminal."""

from rich.console import Console

from gaussproto.cli import console


def test_the_time_left_does_not_count_what_was_done_before(monkeypatch, capsys):
    """A resumed run of 10,000 episodes that has 5,000 and needs 0.2 s for each has 990 s to go after 50 more."""
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    bars = console.Bars(None)
    bars("training", 0, 10_000)
    for episode in range(5_010, 5_061, 10):
        now[0] += 2
        bars("training", episode, 10_000)
    assert capsys.readouterr().err.splitlines() == ["training: 5,050 of 10,000  16 min left"]


def test_a_task_that_begins_again_has_its_own_time(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    bars = console.Bars(None)
    for _ in range(50):  # each quick: nobody needs a line
        for done in (0, 500, 1_000):
            bars("embedding", done, 1_000)
            now[0] += 1
    assert capsys.readouterr().err == ""


def test_a_wide_table_in_a_narrow_terminal_does_not_break_words(monkeypatch, capsys):
    monkeypatch.setattr(console, "out", Console(width=80, force_terminal=True, color_system=None))
    columns = [f"a long title {n}" for n in range(9)]
    rows = [[f"value {row} {n}" for n in range(9)] for row in range(2)]
    console.print_table("Table", columns, rows)
    shown = capsys.readouterr().out
    assert all(title in shown for title in columns)
    assert all(cell in shown for row in rows for cell in row)
    assert max(map(len, shown.splitlines())) <= 80
