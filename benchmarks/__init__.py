"""How fast gaussproto is, and how accurate what it ships is. Not a part of the installed package.

`make bench` runs `python -m benchmarks`: every case of `cases.py` is measured in worker processes (`worker.py`), most
against the textbook implementation in `plain.py`. `publish.py` puts the results into `docs/performance.md`.

Other benchmarks, each `python -m benchmarks.NAME`:
    bundled     scores the bundled weights on all of Omniglot's test classes and compares with their cards
    classifier  scores and times the classifier on Omniglot's files
    vectors     scores feature vectors, with and without a Gaussian head
    compile     times a training step with and without torch.compile
    start       times the data and the start of the command
"""
