"""Benchmarks of the speed of gaussproto and of the accuracy of its bundled weights. Not part of the installed package.

`make bench` runs `python -m benchmarks`. It measures every case of `cases.py` in worker processes (`worker.py`), most
of them against the textbook implementation in `plain.py`. `publish.py` writes the results to `docs/performance.md`.

Run the other benchmarks with `python -m benchmarks.NAME`:
    bundled     scores the bundled weights on all test classes of Omniglot and compares them with their model cards
    classifier  scores and times the classifier on Omniglot's files
    vectors     scores feature vectors, with and without a Gaussian head
    compile     times a training step with and without torch.compile
    start       times loading the data and starting the command
    checksum    times loading files with and without their checksums
    fuzz        damages every kind of file at random and counts what is noticed
    power_cut   cuts the power while gaussproto trains or enrols, on a file system in an image file (as root)
"""
